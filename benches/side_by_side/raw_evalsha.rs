//! What Redis itself can do: a client that only calls a script, one buyer a call, as many calls in a pipeline as the shop has
//! connections. Ours with one buyer, or the one of the Stream design as usually written.

use anyhow::ensure;

use crate::children::RedisServer;
use crate::load::number;
use crate::stream_as_usual;

const ADMIT: &str = include_str!("../../lua/admit.lua");

/// Whose script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The shop's, with one buyer.
    Own,
    /// The classic one.
    Usual,
}

/// A Redis of its own, fsync always.
pub struct RawEvalsha {
    redis: RedisServer,
    which: Which,
    script: redis::Script,
    voucher: i64,
    next_id: i64,
}

impl RawEvalsha {
    /// Starts it and makes the script known.
    pub async fn start(which: Which) -> anyhow::Result<Self> {
        let redis = RedisServer::start().await?;
        let script = redis::Script::new(if which == Which::Own { ADMIT } else { stream_as_usual::SCRIPT });
        script.prepare_invoke().load_async(&mut redis.connect().await?).await?;
        Ok(Self { redis, which, script, voucher: 0, next_id: 610_467_444_359_694_349 })
    }

    async fn open_sale(&mut self, units: usize) -> anyhow::Result<()> {
        self.voucher += 1;
        let (voucher, mut connection) = (self.voucher, self.redis.connect().await?);
        if self.which == Which::Usual {
            let () = redis::cmd("SET").arg(format!("seckill:stock:{voucher}")).arg(units).query_async(&mut connection).await?;
            return Ok(());
        }
        let server: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
        let run_id = server.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().to_owned();
        if voucher == 1 {
            let () = redis::cmd("XGROUP")
                .arg("CREATE")
                .arg("stream.orders:{0}")
                .arg("g1")
                .arg("0")
                .arg("MKSTREAM")
                .query_async(&mut connection)
                .await?;
        }
        let sale = [
            ("state", "open"),
            ("paused", "0"),
            ("epoch", "1"),
            ("run_id", run_id.as_str()),
            ("begin", "0"),
            ("end", "4000000000000"),
        ];
        let () = redis::pipe()
            .hset_multiple(format!("seckill:{{0}}:sale:{voucher}"), &sale)
            .hset(format!("seckill:{{0}}:sale:{voucher}"), "total", units)
            .set(format!("seckill:{{0}}:stock:{voucher}"), units)
            .query_async(&mut connection)
            .await?;
        Ok(())
    }

    /// Admits this many buyers of another sale; microseconds of CPU for each.
    pub async fn admit(&mut self, buyers: usize, pipeline: usize) -> anyhow::Result<f64> {
        self.open_sale(buyers).await?;
        let mut connection = self.redis.connect().await?;
        let before = self.redis.cpu_micros().await?;
        let users: Vec<usize> = (1..=buyers).collect();
        for chunk in users.chunks(pipeline) {
            let mut pipe = redis::pipe();
            for user in chunk {
                self.next_id += 1;
                self.call(&mut pipe, *user);
            }
            let answers: Vec<redis::Value> = pipe.query_async(&mut connection).await?;
            ensure!(answers.iter().all(|answer| self.is_yes(answer)), "a buyer was refused: {:?}", answers.first());
        }
        Ok((self.redis.cpu_micros().await? - before) / number(buyers as u64))
    }

    fn call(&self, pipe: &mut redis::Pipeline, user: usize) {
        let (voucher, call) = (self.voucher, pipe.cmd("EVALSHA").arg(self.script.get_hash()));
        if self.which == Which::Usual {
            call.arg(0).arg(voucher).arg(user).arg(self.next_id);
            return;
        }
        call.arg(5);
        for key in ["sale", "stock", "order"] {
            call.arg(format!("seckill:{{0}}:{key}:{voucher}"));
        }
        call.arg("stream.orders:{0}").arg("places:{0}");
        call.arg(1).arg(60_000_000).arg(voucher).arg(user).arg(self.next_id);
    }

    fn is_yes(&self, answer: &redis::Value) -> bool {
        match (self.which, answer) {
            (Which::Usual, redis::Value::Int(0)) => true,
            (Which::Own, redis::Value::Array(all)) => matches!(all.get(3), Some(redis::Value::BulkString(word)) if word == b"OK"),
            _ => false,
        }
    }
}
