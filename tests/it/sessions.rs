//! Sessions over a real Redis: their life, their end, and what is believed while Redis is away.

use std::time::Duration;

use seckill::clock::Clock;
use seckill::domain::ids::UserId;
use seckill::domain::user::User;
use seckill::push::bus::Bus;
use seckill::push::hub::{Closing, Hub};
use seckill::shutdown::Shutdown;
use seckill::web::session::{Known, Life, RedisSessions, Sessions};

use crate::support::redis::TestRedis;

/// Sessions of one process.
struct Door {
    sessions: Sessions,
    hub: Hub,
    clock: Clock,
    shutdown: Shutdown,
}

impl Door {
    async fn open(redis: &TestRedis, clock: &Clock) -> Self {
        let (shutdown, hub) = (Shutdown::default(), Hub::new(clock.clone()));
        let redis = redis.open().await;
        let bus = Bus::start(&redis, hub.clone(), &shutdown);
        let life = Life { idle: Duration::from_mins(30), max: Duration::from_hours(24) };
        let sessions = Sessions::new(RedisSessions::new(redis), life, clock.clone(), &hub, bus, &shutdown);
        Self { sessions, hub, clock: clock.clone(), shutdown }
    }

    async fn log_in(&self, id: i64) -> String {
        self.sessions.create(&user(id), &[]).await.unwrap().0
    }

    /// `yes`, `no` or `away`.
    async fn says(&self, token: &str) -> &'static str {
        match self.sessions.load(token).await {
            Known::Yes(_) => "yes",
            Known::No => "no",
            Known::CannotTell => "away",
        }
    }

    async fn close(self) {
        self.shutdown.begin();
        assert!(self.shutdown.finished(Duration::from_secs(5)).await);
    }
}

fn user(id: i64) -> User {
    User { id: UserId(id), nick_name: String::from("小顾"), admin: false, disabled: false, credits: 0 }
}

#[tokio::test]
async fn a_new_session_kills_the_old_one_and_nobody_adopts_a_made_up_token() {
    let redis = TestRedis::start().await;
    let door = Door::open(&redis, &Clock::default()).await;
    let first = door.log_in(1).await;
    let (second, _) = door.sessions.create(&user(1), &[&first, "no token at all"]).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(door.says(&first).await, "no");
    assert_eq!(door.says(&second).await, "yes");
    for made_up in ["AAAAAAAAAAAAAAAAAAAAAA", "", "x", "../../etc"] {
        assert_eq!(door.says(made_up).await, "no", "{made_up}");
    }
    let keys: Vec<String> = redis.ask("KEYS login:token:*").await;
    assert_eq!(keys.len(), 1);
    assert!(!keys[0].contains(&second) && keys[0].len() == "login:token:".len() + 64);
    door.close().await;
}

#[tokio::test]
async fn use_keeps_a_session_alive_until_its_last_day_and_rest_ends_it() {
    let redis = TestRedis::start().await;
    let door = Door::open(&redis, &Clock::default()).await;
    let (busy, resting) = (door.log_in(1).await, door.log_in(2).await);
    for _ in 0..47 {
        door.clock.advance(Duration::from_mins(29));
        assert_eq!(door.says(&busy).await, "yes");
        // The renewal is in the background: the next look must not come before it is there.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(door.says(&resting).await, "no");
    door.clock.advance(Duration::from_mins(29));
    door.clock.advance(Duration::from_mins(50));
    assert_eq!(door.says(&busy).await, "no", "a day is the most, used or not");
    door.close().await;
}

#[tokio::test]
async fn a_busy_session_is_written_once_a_minute_at_most() {
    let redis = TestRedis::start().await;
    let door = Door::open(&redis, &Clock::default()).await;
    let token = door.log_in(1).await;
    let before = redis.calls_of("set").await;
    for _ in 0..50 {
        assert_eq!(door.says(&token).await, "yes");
    }
    door.clock.advance(Duration::from_secs(61));
    for _ in 0..50 {
        assert_eq!(door.says(&token).await, "yes");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(redis.calls_of("set").await - before, 1);
    door.close().await;
}

#[tokio::test]
async fn while_redis_is_away_who_was_seen_is_believed_and_nobody_else_is_judged() {
    let mut redis = TestRedis::start().await;
    let door = Door::open(&redis, &Clock::default()).await;
    let (seen, ended) = (door.log_in(1).await, door.log_in(2).await);
    let Known::Yes(second) = door.sessions.load(&ended).await else { panic!("just made") };
    door.sessions.end(&second).await.unwrap();
    redis.kill();
    assert_eq!(door.says(&seen).await, "yes");
    assert_eq!(door.says(&ended).await, "away");
    assert_eq!(door.says("AAAAAAAAAAAAAAAAAAAAAA").await, "away");
    assert!(door.sessions.end(&second).await.is_err(), "an end that did not happen is not claimed");
    door.clock.advance(Duration::from_mins(11));
    assert_eq!(door.says(&seen).await, "away", "ten minutes without a word are too long");
    door.close().await;
}

#[tokio::test]
async fn an_end_on_one_process_closes_the_sockets_of_another_and_is_remembered_there() {
    let mut redis = TestRedis::start().await;
    let clock = Clock::default();
    let (here, there) = (Door::open(&redis, &clock).await, Door::open(&redis, &clock).await);
    let (token, user) = here.sessions.create(&user(1), &[]).await.unwrap();
    let other = here.log_in(1).await;
    assert_eq!((there.says(&token).await, there.says(&other).await), ("yes", "yes"));
    let mut socket = there.hub.register(Some(UserId(1)), Some(user.session.to_string()));
    // Both listeners must have subscribed before anything is said.
    while redis.ask::<(String, i64)>("PUBSUB NUMSUB seckill:bus").await.1 < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    here.sessions.end_all(UserId(1), None).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(5), socket.closing.wait_for(Option::is_some)).await.unwrap().unwrap();
    assert_eq!(*closed, Some(Closing::SessionOver));
    drop(closed);
    redis.kill();
    assert_eq!(there.says(&token).await, "away", "an ended session is not believed");
    here.close().await;
    there.close().await;
}

#[tokio::test]
async fn seeded_sessions_work_and_can_be_ended_but_for_one() {
    let redis = TestRedis::start().await;
    let door = Door::open(&redis, &Clock::default()).await;
    let users: Vec<User> = std::iter::repeat_n(user(1), 3).chain([user(2)]).collect();
    let tokens = door.sessions.seed(&users).await.unwrap();
    let Known::Yes(kept) = door.sessions.load(&tokens[1]).await else { panic!("just made") };
    door.sessions.end_all(UserId(1), Some(&kept.session)).await.unwrap();
    let mut answers = Vec::new();
    for token in &tokens {
        answers.push(door.says(token).await);
    }
    assert_eq!(answers, ["no", "yes", "no", "yes"]);
    door.close().await;
}
