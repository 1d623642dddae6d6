//! Reads every page in both languages: hooks, labels, escaping; and keeps the catalogue whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use scraper::{ElementRef, Html, Selector};

use super::format;
use super::samples::{EVIL, all, chrome};
use crate::domain::time::Millis;
use crate::i18n::Lang;

fn find<'a>(html: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    html.select(&Selector::parse(selector).unwrap()).collect()
}

fn pages() -> impl Iterator<Item = (String, Lang, Html)> {
    [Lang::ZhCn, Lang::En].into_iter().flat_map(|lang| {
        all(lang).into_iter().map(move |(name, html)| (format!("{name} {}", lang.tag()), lang, Html::parse_document(&html)))
    })
}

#[test]
fn no_page_runs_what_a_person_typed_and_none_has_inline_script_or_style() {
    for (name, _, html) in pages() {
        let scripts = find(&html, "script");
        assert_eq!(scripts.len(), 2, "{name}");
        assert!(scripts[0].attr("src").is_some_and(|s| s.starts_with("/static/")), "{name}");
        assert_eq!(scripts[1].attr("type"), Some("application/json"), "{name}");
        let words: String = scripts[1].text().collect();
        assert!(!words.contains('<'), "{name}");
        serde_json::from_str::<serde_json::Value>(&words).unwrap();
        for element in find(&html, "*") {
            for (attribute, value) in element.value().attrs() {
                assert!(attribute != "style" && !attribute.starts_with("on"), "{name}: {attribute}={value}");
                assert!(!value.starts_with("javascript:"), "{name}");
            }
        }
        assert!(find(&html, "style, iframe, object, base, h3 b, .evil").is_empty(), "{name}");
    }
    let shop = all(Lang::En).into_iter().find(|(name, _)| name == "shop").unwrap().1;
    let html = Html::parse_document(&shop);
    assert_eq!(find(&html, "#v10")[0].text().collect::<String>(), EVIL);
    assert_eq!(find(&html, "h1")[0].text().collect::<String>(), EVIL);
}

#[test]
fn every_page_has_one_heading_a_title_and_only_references_that_lead_somewhere() {
    for (name, lang, html) in pages() {
        assert_eq!(find(&html, "html")[0].attr("lang"), Some(lang.tag()), "{name}");
        assert_eq!(find(&html, "h1").len(), 1, "{name}");
        assert!(find(&html, "title")[0].text().collect::<String>().ends_with(" · seckill"), "{name}");
        let mut ids = BTreeSet::new();
        for element in find(&html, "[id]") {
            assert!(ids.insert(element.attr("id").unwrap().to_owned()), "{name}: {:?}", element.attr("id"));
        }
        for attribute in ["for", "aria-describedby", "aria-labelledby"] {
            for element in find(&html, &format!("[{attribute}]")) {
                for id in element.attr(attribute).unwrap().split_whitespace() {
                    assert!(ids.contains(id), "{name}: {attribute}={id}");
                }
            }
        }
        for input in find(&html, "input:not([type=hidden]), select, textarea") {
            let id = input.attr("id").unwrap_or_default();
            assert!(!find(&html, &format!("label[for={id}]")).is_empty(), "{name}: {id} has no label");
        }
        assert!(find(&html, "a[href='']").is_empty(), "{name}");
        let text: String = html.root_element().text().collect();
        assert!(!text.contains("{$") && !text.contains("{ $") && !text.contains('\u{2068}'), "{name}");
    }
}

#[test]
fn the_hooks_of_scripts_and_checks_are_there() {
    let pages: BTreeMap<_, _> = all(Lang::ZhCn).into_iter().map(|(n, html)| (n, Html::parse_document(&html))).collect();
    let shop = &pages["shop"];
    for (id, state) in [(10, "open"), (11, "soon"), (13, "paused"), (14, "soldOut"), (15, "ended")] {
        let card = find(shop, &format!("[data-voucher='{id}'][data-state={state}]"));
        assert_eq!(card.len(), 1, "{id}");
        let button = find(shop, &format!("[data-voucher='{id}'] form[action='/vouchers/{id}/buy'] button[data-action=buy]"));
        assert_eq!(button[0].attr("disabled").is_none(), state == "open", "{id}");
        assert_eq!(find(shop, &format!("[data-voucher='{id}'] [data-stock]")).len(), 1);
    }
    assert_eq!(find(shop, "[data-voucher='10'] [data-stock]")[0].text().collect::<String>(), "36");
    assert_eq!(find(shop, "[data-voucher='10'] [data-countdown]")[0].text().collect::<String>(), "13:51:39");
    assert_eq!(find(shop, "[data-voucher='16'][data-held] a.go").len(), 1);
    assert!(find(shop, "[data-voucher='9'] button, [data-voucher='9'][data-state]").is_empty());
    assert_eq!(find(shop, "button[data-action=logout]").len(), 1);
    let refused = find(&pages["shop-SOLD_OUT"], "[data-voucher='14'] [role=alert]")[0].text().collect::<String>();
    assert_eq!(refused, "这次没抢到：库存不足。");
    for (name, status, event) in [
        ("order-queued", "QUEUED", "order.queued"),
        ("order-pending", "PENDING", "order.created"),
        ("order-paid", "PAID", "order.paid"),
        ("order-timeout", "CANCELLED", "order.cancelled"),
        ("order-lost", "FAILED", "order.failed"),
    ] {
        assert_eq!(find(&pages[name], &format!("[data-order][data-status={status}]")).len(), 1, "{name}");
        assert_eq!(find(&pages[name], &format!("[role=status][data-event='{event}']")).len(), 1, "{name}");
    }
    assert_eq!(find(&pages["order-queued"], "head noscript").len(), 1);
    assert!(find(&pages["order-pending"], "head noscript").is_empty());
    assert_eq!(find(&pages["order-pending"], "button[data-action=pay], button[data-action=cancel]").len(), 2);
    assert_eq!(find(&pages["order-paid"], "[data-coupon]")[0].text().collect::<String>(), "K7QM 4XRP 9TWD");
    assert_eq!(find(&pages["orders"], "li[data-order][data-status]").len(), 13);
    let form = &pages["voucher-invalid"];
    assert_eq!(find(form, "#endTime[aria-invalid=true], #endTime-error, #stock[aria-invalid=true], #stock-error").len(), 4);
    assert_eq!(find(form, "input[name=formId]")[0].attr("value"), Some("b1946ac9"));
    assert_eq!(find(form, "input[name=timeZone]")[0].attr("value"), Some("Europe/Berlin"));
    assert_eq!(find(form, "#rules")[0].text().collect::<String>(), format!("</textarea>{EVIL}"));
    assert_eq!(find(form, "option[selected]")[0].attr("value"), Some("2"));
    for (voucher, balanced) in [(10, "true"), (16, "false"), (11, "unknown"), (15, "true")] {
        let books = find(&pages["admin"], &format!("[data-voucher='{voucher}'] [data-balanced='{balanced}']"));
        assert_eq!(books.len(), 1, "{voucher}");
    }
    assert_eq!(find(&pages["admin"], "form[action='/admin/vouchers/16/rebuild'].row").len(), 1, "what is wrong can be mended");
    assert_eq!(find(&pages["admin"], "#wrong a[href='#s16']").len(), 1);
    // Every number opens its list.
    for number in find(&pages["admin"], ".nums li, .eq b") {
        let link = number.select(&Selector::parse("a[href]").unwrap()).next().is_some();
        let within = number.parent().and_then(ElementRef::wrap).is_some_and(|p| p.value().name() == "a");
        assert!(link || within, "{:?} leads nowhere", number.text().collect::<String>());
    }
    // Every part that the socket sends has its place.
    assert_eq!(find(&pages["admin"], "[data-part]").len(), 5 + 2 * 4);
    assert_eq!(find(&pages["admin-voucher-conflict"], "#title")[0].attr("value"), Some(EVIL));
    assert_eq!(find(&pages["admin-letters"], "[data-dead-letter]").len(), 3);
    assert!(find(&pages["register-invalid"], "input[type=password][value]").is_empty());
}

#[test]
fn the_switches_keep_the_path() {
    let c = chrome(Lang::ZhCn, None, "/orders?cursor=x&lang=en&theme=dark");
    assert_eq!(c.lang_link(), "/orders?cursor=x&lang=en");
    assert_eq!(c.theme_link("light"), "/orders?cursor=x&theme=light");
    assert_eq!(chrome(Lang::En, None, "/").lang_link(), "/?lang=zh-CN");
    assert_eq!(chrome(Lang::En, None, "/shop/1").login_link(), "/login?next=/shop/1");
    assert!(chrome(Lang::En, None, "/orders/5").is_at("/orders") && !chrome(Lang::En, None, "/ordersx").is_at("/orders"));
}

#[test]
fn the_words_of_the_table_are_said_to_the_letter() {
    let text = |name: &str, lang| {
        let html = all(lang).into_iter().find(|(n, _)| n == name).unwrap().1;
        Html::parse_document(&html).root_element().text().collect::<String>()
    };
    for (page, sentence) in [
        ("shop", "每人限 1 份；抢到后 15 分钟内付款。"),
        ("shop", "你已抢到 1 份，订单待付款；不能重复下单。"),
        ("shop", "12:00 开抢"),
        ("front", "登录后就能抢，会回到这一页。"),
        ("shop", "7月3日 24:00"),
        ("order-pending", "这一份是你的了。10:20:29 前没付款，订单自动取消，名额放回给别人。"),
        ("order-timeout", "10:20:29 前没有付款，名额已放回。没有扣款。"),
        ("order-late-due", "付款到得太晚，¥12.00 正在原路退回。"),
        ("order-queued", "名额已经给你留着，订单还在写入，现在还不算买到。"),
        ("shop-BUSY", "活动太火爆，请稍后再试。没有下单，也没有扣款；3 秒后再点。"),
        ("shop-NOT_BEGUN", "还没开始，12:00 开抢。早点了没关系，到时再点。"),
        ("error-INTERNAL", "我们出了错，已记下。编号 7f3c9a21e04b；请稍后再试。"),
        ("voucher-invalid", "有 2 处要改，填过的都留着。"),
    ] {
        assert!(text(page, Lang::ZhCn).contains(sentence), "{page}: {sentence}");
    }
    for (page, sentence) in [
        ("shop", "51% off"),
        ("shop", "3 Jul, 24:00"),
        ("shop", "You have one; it is waiting for payment. One each."),
        ("order-cancelled", "You cancelled it and the unit is back. You may buy again while the sale is on."),
        ("voucher-invalid", "2 things to mend; what you typed is kept."),
        ("register-invalid", "1 thing to mend; what you typed is kept."),
    ] {
        assert!(text(page, Lang::En).contains(sentence), "{page}: {sentence}");
    }
}

fn read_all(folder: &str, ending: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(read_all(path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap(), ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            texts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    texts
}

/// Key → names of its arguments, of one language.
fn catalogue(lang: Lang) -> BTreeMap<String, BTreeSet<String>> {
    let mut keys = BTreeMap::new();
    for (file, text) in read_all(&format!("templates/words/{}", lang.tag()), ".ftl") {
        let mut key = String::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            if let Some((name, _)) = line.split_once(" =").filter(|(n, _)| !n.is_empty() && !n.starts_with([' ', '}'])) {
                key = name.to_owned();
                assert!(keys.insert(key.clone(), BTreeSet::new()).is_none(), "{file}: {key} stands twice");
            }
            for piece in line.split("{ $").skip(1) {
                let name = piece.split([' ', '}']).next().unwrap();
                if name != "plural" {
                    keys.get_mut(&key).unwrap().insert(name.to_owned());
                }
            }
        }
    }
    keys
}

#[test]
fn both_languages_have_the_same_keys_with_the_same_arguments() {
    assert_eq!(catalogue(Lang::ZhCn), catalogue(Lang::En));
    assert!(catalogue(Lang::En).len() > 200);
}

#[test]
fn every_key_that_is_used_exists_and_every_key_that_exists_is_used() {
    let keys = catalogue(Lang::En);
    let mut code = read_all("src/web/page", ".rs");
    code.retain(|(file, _)| !file.ends_with("tests.rs") && !file.contains("/samples/"));
    code.extend(read_all("src", "i18n.rs"));
    code.extend(read_all("templates", ".html"));
    code.extend(read_all("static", ".js"));
    for (file, text) in &code {
        for call in [".t(\"", " t(\"", "(t(\"", ".f(\"", "timer(c, \""] {
            for key in text.split(call).skip(1).map(|rest| rest.split('"').next().unwrap()) {
                assert!(keys.contains_key(key), "{file}: {key} is no key");
            }
        }
    }
    // Put together from a prefix and a code, a state or a kind.
    let built = [
        "msg-",
        "next-",
        "error-title-",
        "theme-",
        "push-order-",
        "chip-",
        "why-",
        "announce-",
        "month-",
        "sandbox-",
        "no-",
        "kind-",
        "act-",
        "op-",
        "tag-",
    ];
    for key in keys.keys() {
        let said = code.iter().any(|(_, text)| text.contains(&format!("\"{key}\"")));
        assert!(said || built.iter().any(|p| key.starts_with(p)), "nobody says {key}");
    }
}

#[test]
fn no_sentence_stands_outside_the_catalogue() {
    let is_chinese = |c: char| ('\u{2e80}'..='\u{9fff}').contains(&c) || ('\u{ff00}'..='\u{ffef}').contains(&c);
    let mut files = read_all("templates", ".html");
    files.extend(read_all("static", ".js"));
    let mut code = read_all("src/web/page", ".rs");
    code.retain(|(file, _)| !file.ends_with("tests.rs") && !file.contains("/samples/"));
    for (_, text) in &mut code {
        *text = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    }
    files.extend(code);
    for (file, text) in &files {
        assert!(!text.contains(is_chinese), "{file}");
    }
    for (file, text) in read_all("templates", ".html") {
        let mut bare = text;
        for (open, close) in [("{#", "#}"), ("{%", "%}"), ("{{", "}}"), ("<", ">")] {
            bare = without(&bare, open, close);
        }
        for word in bare.split_whitespace() {
            let letters = word.chars().filter(char::is_ascii_alphabetic).count();
            assert!(letters < 2 || matches!(word, "seckill" | "narrow" | "slim" | "crispEdges"), "{file}: {word}");
        }
    }
    for (file, text) in read_all("templates", ".html") {
        for attribute in ["aria-label=\"", "placeholder=\"", "title=\"", "alt=\""] {
            for value in text.split(attribute).skip(1) {
                assert!(value.starts_with("{{"), "{file}: {attribute}{}", value.split('"').next().unwrap());
            }
        }
    }
}

/// `text` without what stands from each `open` to the next `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(from) = rest.find(open) {
        kept.push_str(&rest[..from]);
        kept.push(' ');
        rest = rest[from..].find(close).map_or("", |to| &rest[from + to + close.len()..]);
    }
    kept + rest
}

/// What a reader sees or hears of a page: its texts and labels, without what stands there in another language on purpose,
/// what a machine wrote (`code`), and what people typed.
fn read_aloud(page: &Html) -> Vec<String> {
    let silent = |node: ElementRef<'_>| {
        let name = node.value().name();
        matches!(name, "script" | "code" | "head" | "option" | "textarea") || (name != "html" && node.attr("lang").is_some())
    };
    let mut said = Vec::new();
    let mut open = vec![page.root_element()];
    while let Some(element) = open.pop() {
        if silent(element) {
            continue;
        }
        said.extend(["aria-label", "title", "alt", "placeholder"].iter().filter_map(|name| element.attr(name)).map(String::from));
        for child in element.children() {
            match (ElementRef::wrap(child), child.value().as_text()) {
                (Some(element), _) => open.push(element),
                (None, Some(text)) => said.push(text.to_string()),
                (None, None) => {}
            }
        }
    }
    said.extend(find(page, "title").iter().map(|title| title.text().collect::<String>()));
    said
}

/// Names, and words that Chinese engineers and shopkeepers read in Latin letters.
const LATIN: &[&str] = &[
    "seckill",
    "Redis",
    "CSV",
    "JSON",
    "API",
    "HTTP",
    "Prometheus",
    "Standard",
    "Webhooks",
    "Idempotency",
    "Key",
    "Asia",
    "Shanghai",
    "Europe",
    "Berlin",
    "http",
    "https",
    "example",
    "login",
    "next",
    "UTC",
    "api",
    "data",
    "code",
    "openapi",
    "json",
    "csv",
    "Retry",
    "After",
    // Codes that stand beside their words.
    "LOST",
    "SOLD",
    "OUT",
    "DUPLICATE",
    "DISCARDED",
    "FAILED",
    "MALFORMED",
    "INTERNAL",
    "BUSY",
    "TOO",
    "LARGE",
    "UNSUPPORTED",
    "MEDIA",
    "TYPE",
    // Of the samples: a host, a field, a code and a kind that has no words yet.
    "shop",
    "sandbox",
    "userId",
    "voucherId",
    "epoch",
    "id",
    "foo",
    "NEW",
    "CODE",
    "new",
    "kind",
];

#[test]
fn a_chinese_page_has_no_english_left_in_it() {
    let mut left = Vec::new();
    for (name, html) in all(Lang::ZhCn) {
        if name == "admin-log-later" {
            continue; // actions of a later program have no words here
        }
        let page = Html::parse_document(&html);
        for text in read_aloud(&page) {
            let text = [EVIL, "</textarea>", "K7QM 4XRP 9TWD"].iter().fold(text, |text, typed| text.replace(typed, ""));
            let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
            let words: Vec<&str> = words.filter(|word| !LATIN.contains(word)).collect();
            if !words.is_empty() {
                left.push(format!("{name}: {words:?} in {text:?}"));
            }
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

#[test]
fn an_english_page_has_no_chinese_left_in_it() {
    // What people typed, in the samples.
    let (typed, mut left) = (super::samples::typed(), Vec::new());
    for (name, html) in all(Lang::En) {
        let page = Html::parse_document(&html);
        for text in read_aloud(&page) {
            let text = typed.iter().fold(text, |text, typed| text.replace(typed.as_str(), ""));
            let chinese = |c: char| ('\u{3000}'..='\u{9fff}').contains(&c) || ('\u{ff00}'..='\u{ffef}').contains(&c);
            if text.contains(chinese) {
                left.push(format!("{name}: {text:?}"));
            }
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

#[test]
fn every_operation_is_described_in_words_and_no_words_are_left_over() {
    use crate::web::openapi::operations::OPERATIONS;
    let ids: BTreeSet<String> = OPERATIONS.iter().map(|op| format!("op-{}", op.id().replace('_', "-"))).collect();
    let tags: BTreeSet<String> = OPERATIONS.iter().map(|op| format!("tag-{}", op.tag.replace(' ', "-"))).collect();
    let keys = catalogue(Lang::En);
    let with = |prefix: &str| keys.keys().filter(|key| key.starts_with(prefix)).cloned().collect::<BTreeSet<_>>();
    assert_eq!((with("op-"), with("tag-")), (ids, tags));
}

#[test]
fn a_script_says_only_what_the_page_hands_it() {
    let html = all(Lang::En).remove(0).1;
    let html = Html::parse_document(&html);
    let block: String = find(&html, "#words")[0].text().collect();
    let block: serde_json::Value = serde_json::from_str(&block).unwrap();
    for (file, text) in read_all("static", ".js") {
        for call in text.split(" t(\"").chain(text.split("(t(\"")).skip(1) {
            let key = call.split('"').next().unwrap();
            let plain = key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') && call.contains('"');
            assert!(!plain || key.is_empty() || block["words"][key].is_string(), "{file}: {key}");
        }
    }
    for state in ["soon", "open", "paused", "sold-out", "ended"] {
        assert!(block["words"][format!("chip-{state}")].is_string() && block["words"][format!("why-{state}")].is_string());
    }
}

#[test]
fn a_window_over_two_days_carries_both_dates() {
    let (c, day) = (chrome(Lang::ZhCn, None, "/"), 86_400_000);
    let window = |begin: i64, end: i64| format::window(&c, Millis(c.now.0 + begin), Millis(c.now.0 + end));
    assert_eq!(window(0, 3_600_000), (String::from("10:08:21"), String::from("11:08:21")));
    assert_eq!(window(-day, -60_000), (String::from("7月3日 10:08:21"), String::from("7月4日 10:07:21")));
    let midnight = 13 * 3_600_000 + 51 * 60_000 + 39_000;
    assert_eq!(window(0, midnight).1, "24:00", "a day ends with its own midnight");
}
