//! The load generator, `seckill load`, and the live channel's listener, `seckill watch`.
//!
//! Both talk to a shop over the network as its clients do; nothing here may reach into the shop's own rooms.

pub mod audit;
pub mod clicks;
pub mod client;
pub mod histogram;
mod progress;
pub mod push;
pub mod report;
pub mod saved;
pub mod socket;
pub mod target;
pub mod tokens;
pub mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::clicks::{Clicks, Tally};
use self::client::Client;
use self::push::Listeners;
use self::report::Report;
use self::saved::Saved;
use self::target::Target;
use crate::config::DataArgs;
use crate::domain::ids::VoucherId;
use crate::shutdown::Shutdown;

/// Options of `seckill load`.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// The voucher on sale
    #[arg(long, env = "SECKILL_VOUCHER", value_name = "V")]
    pub voucher: VoucherId,
    /// The shop
    #[arg(long, env = "SECKILL_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub url: Target,
    /// Sessions of the buyers, as 'seckill user seed' writes them
    #[arg(long, env = "SECKILL_TOKENS", value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Users who click, once each [default: 10000, or all of a file that has fewer]
    #[arg(long, env = "SECKILL_BUYERS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub buyers: Option<u32>,
    /// Connections that they share
    #[arg(long, env = "SECKILL_CONNECTIONS", default_value = "64", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,
    /// Clicks begun a second [default: as fast as answers come]
    #[arg(long, env = "SECKILL_RATE", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: Option<u32>,
    /// Sockets of the first N buyers, which measure click to push
    #[arg(long, env = "SECKILL_PUSH", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub push: Option<u32>,
    /// Print the figures as one JSON line
    #[arg(long, env = "SECKILL_JSON")]
    pub json: bool,
    /// The data to audit afterwards
    #[command(flatten)]
    pub data: DataArgs,
}

/// Why a command could not do its work: a sentence for its user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotRun(pub String);

/// Says one sentence on stderr.
fn complain(sentence: &str) {
    // Nobody to tell: the exit code still says it.
    let _ = writeln!(io::stderr(), "seckill: {sentence}");
}

/// Runs the load and prints its figures on stdout. Ends with 0 when the audit holds, 1 when not, 2 when load or audit could
/// not run.
pub async fn run(args: LoadArgs) -> ExitCode {
    let (mut report, tally, saved) = match measure(&args).await {
        Ok(measured) => measured,
        Err(CannotRun(why)) => {
            complain(&why);
            return ExitCode::from(2);
        }
    };
    let code = match audit::run(&args.data).await {
        Ok(problems) => {
            report.audit_ok = problems.is_empty();
            for problem in &problems {
                complain(problem);
            }
            u8::from(!report.audit_ok)
        }
        Err(CannotRun(why)) => {
            complain(&why);
            2
        }
    };
    let printed = if args.json {
        serde_json::to_string(&report).map_err(io::Error::from).and_then(|line| writeln!(io::stdout(), "{line}"))
    } else {
        write!(io::stdout(), "{}", report.words(&tally, &saved))
    };
    ExitCode::from(if printed.is_ok() { code } else { 2 })
}

async fn measure(args: &LoadArgs) -> Result<(Report, Tally, Saved), CannotRun> {
    let Some(tokens) = &args.tokens else {
        return Err(CannotRun(
            "--tokens is needed: write a file of sessions with 'seckill user seed --count N --tokens FILE'".to_owned(),
        ));
    };
    let buyers = tokens::read(tokens, args.buyers.map(|n| n as usize)).await?;
    let listening = args.push.unwrap_or(0) as usize;
    if listening > buyers.len() {
        return Err(CannotRun(format!("--push {listening} is more than the {} buyers", buyers.len())));
    }
    refuse_captcha(&args.url, args.voucher, &buyers).await?;
    let connections = (args.connections as usize).min(buyers.len());
    raise_file_limit((connections + listening + 100) as u64)?;

    let shutdown = Shutdown::default();
    let sockets = push::open(&args.url, &buyers[..listening]).await?;
    let clients = connect(&args.url, connections).await?;
    let clicks = Arc::new(Clicks::new(args.url.clone(), args.voucher, buyers, args.rate, Instant::now()));
    let listeners = Listeners::start(&shutdown, &clicks, sockets);
    let over = CancellationToken::new();
    let progress = shutdown.spawn(progress::show(clicks.clone(), over.clone()));
    let newest = shutdown.spawn(saved::follow_newest(clicks.clone(), over.clone()));

    let pressing: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let clicks = clicks.clone();
            shutdown.spawn(async move { clicks::press_for_all(&clicks, client).await })
        })
        .collect();
    let mut tally = Tally::default();
    for task in pressing {
        tally.merge(task.await.map_err(|e| CannotRun(format!("a connection's task broke: {e}")))?);
    }
    over.cancel();
    let last = newest.await.map_err(|e| CannotRun(format!("the follower broke: {e}")))?;
    if tally.latency.count() == 0 {
        return Err(CannotRun(format!("no click got a decision: {}", causes(&tally))));
    }
    let saved = saved::look_up_all(&shutdown, &clicks, &tally.accepted, last).await;
    let expected = tally.accepted.iter().filter(|a| a.buyer < listening).count();
    let push = listeners.finish(expected, Duration::from_secs(10)).await;
    if push.count() < expected as u64 {
        complain(&format!("{} of {expected} sockets did not hear of their order", expected as u64 - push.count()));
    }
    // The bar is drawn to its end before anything else is printed.
    let _ = progress.await;
    Ok((Report::new(&tally, &saved, (listening > 0).then_some(&push)), tally, saved))
}

/// A captcha is there to keep programs like this one out: measuring its refusals would say nothing of the gate.
async fn refuse_captcha(target: &Target, voucher: VoucherId, buyers: &[tokens::Buyer]) -> Result<(), CannotRun> {
    let Some(first) = buyers.first() else { return Ok(()) };
    let (host, token) = (&target.authority, &first.token);
    let request = format!("GET /api/captcha/{voucher} HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n\r\n");
    let mut client = Client::new(target.clone());
    match client.ask(request.as_bytes()).await {
        Ok(answer) if answer.status == 200 => Err(CannotRun(format!(
            "the sale of voucher {voucher} asks for a captcha, which this load cannot answer: load a sale without one"
        ))),
        // Whatever else is wrong, the clicks will tell.
        _ => Ok(()),
    }
}

fn causes(tally: &Tally) -> String {
    let counted: Vec<_> = tally.undecided.iter().map(|(code, n)| format!("{code} ({n})")).collect();
    counted.join(", ")
}

/// Opens all connections before the first click, so that no handshake is measured.
async fn connect(target: &Target, connections: usize) -> Result<Vec<Client>, CannotRun> {
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut client = Client::new(target.clone());
        client.connect().await.map_err(|e| CannotRun(format!("http://{} cannot be reached: {e}", target.authority)))?;
        clients.push(client);
    }
    Ok(clients)
}

/// Raises the number of files that this process may open, as far as the system lets it.
fn raise_file_limit(wanted: u64) -> Result<(), CannotRun> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|n| n >= wanted) {
        return Ok(());
    }
    let current = Some(now.maximum.map_or(wanted, |max| wanted.min(max)));
    let raised = setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum });
    match (raised, current) {
        (Ok(()), Some(n)) if n >= wanted => Ok(()),
        _ => Err(CannotRun(format!("this system lets a process open too few files; {wanted} are needed: raise 'ulimit -n'"))),
    }
}
