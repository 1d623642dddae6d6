//! Verbs: what the one binary can be told to do, and how each ends.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 a wrong option (for `audit` and `load`: could not run).

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app::{self, Data};
use crate::clock::Clock;
use crate::config::{DataArgs, LogFormat, ServeArgs};
use crate::domain::password::check_password;
use crate::domain::user::{NickName, Phone};
use crate::load::{LoadArgs, watch::WatchArgs};
use crate::service::ServiceError;
use crate::service::users::{Registration, Users};

/// A flash-sale voucher shop: sells each unit once, loses nobody's place, and says so truthfully.
#[derive(Debug, Parser)]
#[command(name = "seckill", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the shop
    Serve(Box<ServeArgs>),
    /// Bring the database's schema up to date
    Migrate(DataArgs),
    /// Shops
    #[command(subcommand)]
    Shop(ShopCommand),
    /// Users
    #[command(subcommand)]
    User(UserCommand),
    /// Compare database, Redis and stream beside a running server
    Audit(AuditArgs),
    /// Buy as many users at once and measure
    Load(Box<LoadArgs>),
    /// Print every message of the socket
    Watch(WatchArgs),
}

#[derive(Debug, Subcommand)]
enum ShopCommand {
    /// Add a shop and print its id
    Add {
        #[command(flatten)]
        data: DataArgs,
        /// The shop's name
        #[arg(long, value_name = "N")]
        name: String,
    },
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Add a user; the password comes from stdin
    Add {
        #[command(flatten)]
        data: DataArgs,
        /// 11 digits
        #[arg(long, value_name = "P")]
        phone: String,
        /// The name to show
        #[arg(long, value_name = "N")]
        name: Option<String>,
        /// May use the control room
        #[arg(long)]
        admin: bool,
    },
    /// Add users with a session each, for load tests
    Seed {
        #[command(flatten)]
        data: DataArgs,
        /// How many, 1–1,000,000
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        count: u32,
        /// Where to write `userId phone token` lines
        #[arg(long, value_name = "FILE")]
        tokens: PathBuf,
    },
}

#[derive(Debug, Args)]
struct AuditArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses the command line, runs the verb, and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            complain(&first_sentence(&error.to_string()));
            return ExitCode::from(2);
        }
        Err(help) => {
            say(help.to_string().trim_end());
            return ExitCode::SUCCESS;
        }
    };
    crate::telemetry::start_log(match &cli.command {
        Command::Serve(args) => args.log_format,
        _ => LogFormat::Auto,
    });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("error: the runtime cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(cli.command));
    // Detached reads of blocking files must not hold the end.
    runtime.shutdown_background();
    code
}

async fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Serve(args) => return Box::pin(serve(*args)).await,
        Command::Load(args) => return crate::load::run(*args).await,
        Command::Watch(args) => return crate::load::watch::run(args).await,
        Command::Audit(args) => return audit(args).await,
        Command::Migrate(data) => migrate(&data).await,
        Command::Shop(ShopCommand::Add { data, name }) => shop_add(&data, &name).await,
        Command::User(UserCommand::Add { data, phone, name, admin }) => user_add(&data, &phone, name.as_deref(), admin).await,
        Command::User(UserCommand::Seed { data, count, tokens }) => user_seed(&data, count, &tokens).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: ServeArgs) -> ExitCode {
    if args.demo && !args.listen.ip().is_loopback() {
        complain("error: --demo listens on loopback only: leave --listen out or give it a 127.0.0.1 address");
        return ExitCode::from(2);
    }
    let app = match app::start(&args, Clock::wrong_by(crate::fault::clock_error())).await {
        Ok(app) => app,
        Err(app::StartError::Usage(sentence)) => {
            complain(&format!("error: {sentence}"));
            return ExitCode::from(2);
        }
        Err(app::StartError::Failed(error)) => {
            complain(&format!("error: {error:#}"));
            return ExitCode::FAILURE;
        }
    };
    for user in &app.demo_users {
        let role = if user.phone == crate::service::demo::ADMIN { "admin" } else { "buyer" };
        say(&format!("demo {role} {} {}", user.phone, user.password));
    }
    let told_to_stop = app::told_to_stop();
    say(&format!("listening on http://{}", app.address));
    let failed = app.failed();
    let told = tokio::select! {
        () = told_to_stop => true,
        () = failed => false,
    };
    if app.stop().await && told {
        ExitCode::SUCCESS
    } else if !told {
        ExitCode::FAILURE // the log has said why
    } else {
        complain("error: some work did not finish in time; it is safe and goes on at the next start");
        ExitCode::FAILURE
    }
}

async fn migrate(args: &DataArgs) -> anyhow::Result<()> {
    app::open_store(args).await?;
    say("the schema is up to date");
    Ok(())
}

async fn shop_add(args: &DataArgs, name: &str) -> anyhow::Result<()> {
    let name = name.trim();
    anyhow::ensure!((1..=100).contains(&name.chars().count()), "a shop's name has 1 to 100 characters");
    let store = app::open_store(args).await?;
    let mut tx = store.begin().await?;
    let id = tx.insert_shop(&crate::store::NewShop::named(name), Clock::default().now()).await?;
    tx.commit().await?;
    say(&id.to_string());
    Ok(())
}

async fn user_add(args: &DataArgs, phone: &str, name: Option<&str>, admin: bool) -> anyhow::Result<()> {
    // Checked before the password is asked for.
    Phone::parse(phone)?;
    name.map(NickName::parse).transpose()?;
    let password = read_password()?;
    check_password(&password)?;
    let users = Users::new(app::open_store(args).await?, Clock::default())?;
    let typed = Registration { phone: phone.to_owned(), password: password.into(), nick_name: name.map(str::to_owned), admin };
    let user = users.register(typed).await?;
    say(&format!("user {}", user.id));
    Ok(())
}

async fn user_seed(args: &DataArgs, count: u32, file: &std::path::Path) -> anyhow::Result<()> {
    let data = Data::open(args).await?;
    let seeded = app::seed_users(&data, count).await?;
    let lines: Vec<String> = seeded.into_iter().map(|(user, phone, token)| format!("{user} {phone} {token}\n")).collect();
    // Tokens are secrets: the file is made for its owner alone.
    write_private(file, &lines.concat()).map_err(|e| anyhow::anyhow!("cannot write {}: {e}", file.display()))?;
    data.close().await;
    Ok(())
}

async fn audit(args: AuditArgs) -> ExitCode {
    let report = async {
        let data = Data::open_beside(&args.data).await?;
        let report = data.audit().run().await.map_err(|e: ServiceError| anyhow::anyhow!("{e}"))?;
        anyhow::Ok(report)
    };
    match report.await {
        Err(error) => {
            complain(&format!("error: the audit could not look: {error:#}"));
            ExitCode::from(2)
        }
        Ok(report) => {
            if args.json {
                say(&serde_json::to_string(&report).unwrap_or_default());
            } else {
                for v in &report.vouchers {
                    let verdict = if v.problems.is_empty() { "ok" } else { "BROKEN" };
                    say(&format!(
                        "voucher {} epoch {}: I {} = D {} + A {}; D = R {} + F {} + U {}: {verdict}",
                        v.voucher_id, v.epoch, v.i, v.d, v.a, v.r, v.f, v.u
                    ));
                    for problem in &v.problems {
                        say(&format!("  {problem}"));
                    }
                }
                for problem in &report.problems {
                    say(problem);
                }
                say(if report.ok { "the books balance" } else { "the books do not balance" });
            }
            if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

/// The first paragraph of clap's text: one plain sentence, with the list that it may end in folded into it.
fn first_sentence(text: &str) -> String {
    let paragraph: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    in_plain_words(&paragraph.join(" "))
}

/// What parsers of the language say about a value, said for whoever typed it.
fn in_plain_words(sentence: &str) -> String {
    const SAID: &[(&str, &str)] = &[
        ("invalid digit found in string", "write a whole number"),
        ("cannot parse integer from empty string", "write a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid socket address syntax", "write an address and a port, as in 127.0.0.1:8080"),
        ("invalid IP address syntax", "write networks as in 10.0.0.0/8, separated by commas"),
    ];
    for (said, meant) in SAID {
        if let Some(before) = sentence.strip_suffix(said) {
            return format!("{before}{meant}");
        }
    }
    // "99999 is not in 1..=1024"
    let range = sentence.rsplit_once(" is not in ").and_then(|(before, range)| Some((before, range.split_once("..=")?)));
    match range {
        Some((before, (least, most))) => {
            let before = before.rsplit_once(' ').map_or("", |(before, _)| before);
            format!("{before} write a whole number from {least} to {most}")
        }
        None => sentence.to_owned(),
    }
}

fn read_password() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        return Ok(rpassword::prompt_password("password: ")?);
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

fn write_private(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

// Whoever read may have gone away; that is no reason to die in the middle of what is being done.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_told_in_words_of_the_reader() {
        let told = in_plain_words("error: invalid value '0' for '--backlog <N>': 0 is not in 1..=10000000");
        assert_eq!(told, "error: invalid value '0' for '--backlog <N>': write a whole number from 1 to 10000000");
        let told = in_plain_words("error: invalid value 'x' for '--lanes <N>': invalid digit found in string");
        assert_eq!(told, "error: invalid value 'x' for '--lanes <N>': write a whole number");
        assert_eq!(in_plain_words("error: something else"), "error: something else");
    }
}
