//! A place for one server process: kept alive like by a service manager, killed, stopped, and started with a fault by order.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use seckill::shutdown::Shutdown;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};

use crate::support::process::BINARY;

/// How a server of this place is started.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub options: Vec<String>,
    pub log: PathBuf,
    /// In every process, whatever else is ordered: a mutant.
    pub always: String,
}

/// What is known of the process that is there now.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// It listens.
    pub ready: bool,
    pub pid: Option<i32>,
    /// How many were started.
    pub starts: u32,
    /// How many ended, and how the last one did: exit code, none when by a signal.
    pub ends: u32,
    pub last_code: Option<i32>,
}

enum Order {
    Signal(Signal),
    /// The next process gets this fault, once.
    Next(String),
    Limit(Resource, Option<u64>),
    Quit(oneshot::Sender<i32>),
}

/// The place.
#[derive(Clone)]
pub struct Slot {
    pub base: String,
    pub state: watch::Receiver<State>,
    orders: mpsc::UnboundedSender<Order>,
    mutant: String,
}

impl Slot {
    /// Starts a server at `port` and keeps one there until the end.
    pub fn keep(port: u16, recipe: Recipe, tasks: &Shutdown) -> Self {
        let (told, state) = watch::channel(State::default());
        let (orders, heard) = mpsc::unbounded_channel();
        let mutant = recipe.always.clone();
        tasks.spawn(keep(port, recipe, told, heard));
        Self { base: format!("http://127.0.0.1:{port}"), state, orders, mutant }
    }

    fn order(&self, order: Order) {
        let _gone_at_the_end = self.orders.send(order);
    }

    /// What is taken out of every process here.
    pub fn mutant(&self) -> &str {
        &self.mutant
    }

    pub fn kill(&self) {
        self.order(Order::Signal(Signal::KILL));
    }

    pub fn signal(&self, signal: Signal) {
        self.order(Order::Signal(signal));
    }

    /// Kills what is there; the next process is started with this fault, the one after it without.
    pub fn restart_with(&self, fault: &str) {
        self.order(Order::Next(fault.to_owned()));
        self.kill();
    }

    /// A limit of the process that is there; none: as large as it may be.
    pub fn limit(&self, resource: Resource, to: Option<u64>) {
        self.order(Order::Limit(resource, to));
    }

    /// SIGTERM for good; the exit code.
    pub async fn quit(&self) -> i32 {
        let (told, heard) = oneshot::channel();
        self.order(Order::Quit(told));
        if let Ok(code) = tokio::time::timeout(Duration::from_secs(20), heard).await {
            return code.unwrap_or(-2);
        }
        self.kill();
        -3
    }

    /// Waits until the state is as wanted; false after `limit`.
    pub async fn until(&self, limit: Duration, wanted: impl FnMut(&State) -> bool) -> bool {
        let mut state = self.state.clone();
        matches!(tokio::time::timeout(limit, state.wait_for(wanted)).await, Ok(Ok(_)))
    }

    pub fn now(&self) -> State {
        self.state.borrow().clone()
    }
}

fn spawn(port: u16, recipe: &Recipe, fault: &str) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(&recipe.log).unwrap();
    // A full disk is an error to be handled, not a signal to die of.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", BINARY, "serve", "--listen"]).arg(format!("127.0.0.1:{port}"));
    command.args(&recipe.options);
    let faults = [recipe.always.as_str(), fault].into_iter().filter(|f| !f.is_empty()).collect::<Vec<_>>().join(",");
    command.env("SECKILL_FAULT", faults).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true).spawn().unwrap()
}

fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

async fn keep(port: u16, recipe: Recipe, told: watch::Sender<State>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut next = String::new();
    loop {
        let mut child = spawn(port, &recipe, &std::mem::take(&mut next));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reading = true;
        told.send_modify(|s| {
            s.pid = pid_of(&child).map(Pid::as_raw_nonzero).map(std::num::NonZero::get);
            s.starts += 1;
        });
        let mut quitting = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.unwrap(),
                line = lines.next_line(), if reading => match line {
                    Ok(Some(line)) if line.starts_with("listening on ") => told.send_modify(|s| s.ready = true),
                    Ok(Some(_)) => {}
                    _ => reading = false,
                },
                order = orders.recv() => match order {
                    Some(Order::Signal(signal)) => {
                        if let Some(pid) = pid_of(&child) {
                            let _ended = kill_process(pid, signal);
                        }
                    }
                    Some(Order::Next(fault)) => next = fault,
                    Some(Order::Limit(resource, to)) => {
                        let hard = rustix::process::getrlimit(resource).maximum;
                        let _ended = prlimit(pid_of(&child), resource, Rlimit { current: to.or(hard), maximum: hard });
                    }
                    Some(Order::Quit(answer)) => {
                        if let Some(pid) = pid_of(&child) {
                            let _ended = kill_process(pid, Signal::CONT);
                            let _ended = kill_process(pid, Signal::TERM);
                        }
                        quitting = Some(answer);
                    }
                    None => return,
                },
            }
        };
        told.send_modify(|s| {
            *s = State { ready: false, pid: None, ends: s.ends + 1, last_code: status.code(), starts: s.starts };
        });
        if let Some(answer) = quitting {
            let _nobody_waits = answer.send(status.code().unwrap_or(-1));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
