//! Faults that come from outside: people who go away, press fifty times, read nothing, or flood.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::faults::{Done, done, pause};
use super::history::{Answer, Asked};
use super::world::World;

fn address(world: &World, n: usize) -> &str {
    world.slots[n].base.trim_start_matches("http://")
}

/// Clicks whose connection is closed before the answer.
pub async fn aborted_clicks(world: &Arc<World>, rng: &mut StdRng) -> Done {
    for _ in 0..40 {
        let (n, client) = (rng.random_range(0..2), rng.random_range(0..world.people.len()));
        let (voucher, _) = world.sales[rng.random_range(0..world.sales.len())];
        let call = world.history.invoke(client, Asked::Buy { voucher });
        if let Ok(mut stream) = TcpStream::connect(address(world, n)).await {
            let request = format!(
                "POST /api/voucher-order/seckill/{voucher} HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\nContent-Length: 0\r\n\r\n",
                world.people[client].token
            );
            let _may_be_gone = stream.write_all(request.as_bytes()).await;
            tokio::time::sleep(Duration::from_micros(rng.random_range(0..6000))).await;
        }
        world.history.answer(call, Answer::Unknown(String::from("went away")));
    }
    done("40 clicks whose buyers went away")
}

/// Fifty clicks of one buyer at once, at both servers.
pub async fn many_clicks(world: &Arc<World>, rng: &mut StdRng) -> Done {
    let client = rng.random_range(0..world.people.len());
    let (voucher, _) = world.sales[rng.random_range(0..world.sales.len())];
    join_all((0..50).map(|i| world.buy(i % 2, client, voucher))).await;
    done(format!("50 clicks of client {client} at once"))
}

/// Sockets that are opened and never read.
pub async fn slow_readers(world: &Arc<World>, rng: &mut StdRng) -> Done {
    let n = rng.random_range(0..2);
    let mut held = Vec::new();
    for i in 0..40 {
        let socket = TcpSocket::new_v4().unwrap();
        let _small = socket.set_recv_buffer_size(1024);
        let Ok(mut stream) = socket.connect(address(world, n).parse().unwrap()).await else { continue };
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: {}\r\n\r\n",
            address(world, n),
            world.people[i % world.people.len()].token
        );
        let _may_be_gone = stream.write_all(request.as_bytes()).await;
        held.push(stream);
    }
    pause(2500).await;
    done(format!("{} sockets that are never read", held.len()))
}

/// Connections by the hundred, and frames that are too large.
pub async fn flood(world: &Arc<World>, rng: &mut StdRng) -> Done {
    let n = rng.random_range(0..2);
    let mut held = Vec::new();
    for i in 0..200 {
        let Ok(Ok(mut stream)) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address(world, n))).await
        else {
            continue;
        };
        let upgrade = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let _may_be_gone = stream.write_all(if i % 3 == 0 { upgrade.as_bytes() } else { b"GET" }).await;
        // A text frame of 2^40 bytes, masked.
        let _may_be_gone = stream.write_all(&[0x81, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6]).await;
        held.push(stream);
    }
    pause(1000).await;
    done(format!("a flood of {} connections", held.len()))
}
