//! axe-core looks at a page. `axe.min.js` is Deque's, under the Mozilla Public License 2.0 (`LICENSE`, beside it), and is
//! for tests alone: nothing of it is in the program.

use serde_json::Value;

use crate::support::browser::Browser;

const AXE: &str = include_str!("axe.min.js");
/// The rules of WCAG 2.0 to 2.2, A and AA, and what axe holds for good practice.
const RUN: &str = "const done = arguments[arguments.length - 1]; \
    const only = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']; \
    axe.run(document, { runOnly: only }).then(r => done({ passes: r.passes.length, violations: r.violations.map(v => ({ \
    impact: v.impact, id: v.id, help: v.help, at: v.nodes.map(n => n.target.join(' ')) })) }), e => done(String(e)));";

/// What axe finds on the present page: serious and critical findings.
pub async fn findings(browser: &Browser) -> Vec<Value> {
    browser.driver().execute(AXE, Vec::new()).await.unwrap();
    let report = browser.driver().execute_async(RUN, Vec::new()).await.unwrap().json().clone();
    assert!(report["passes"].as_u64().is_some_and(|n| n > 10), "axe did not look: {report}");
    let grave = |finding: &Value| ["serious", "critical"].iter().any(|impact| finding["impact"] == *impact);
    report["violations"].as_array().unwrap().iter().filter(|finding| grave(finding)).cloned().collect()
}

/// Fails when axe finds anything serious on the present page.
pub async fn is_accessible(browser: &Browser) {
    let found = findings(browser).await;
    assert!(found.is_empty(), "{}: {found:#?}", browser.path().await);
}
