//! Several ranks as threads of one process, and peers that break the protocol.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ferromx_core::op::Mode;
use ferromx_core::storage::Req;

use super::super::connect::{self, Membership, Purpose};
use super::super::job::Listener;
use super::super::wire::{Header, Kind, MAX_BODY};
use super::*;
use crate::arrays::to_dense;
use crate::executor::{Executor, SimpleBind};
use crate::symbol::Symbol;

const SECRET: &[u8] = b"0123456789abcdef";
const TIMEOUT: Duration = Duration::from_secs(20);

fn listeners(n: usize) -> (Vec<Listener>, Vec<String>) {
    let listeners: Vec<_> = (0..n).map(|_| Listener::open("127.0.0.1", 0).unwrap()).collect();
    let peers = listeners.iter().map(|l| format!("127.0.0.1:{}", l.port())).collect();
    (listeners, peers)
}

fn join(listener: Listener, rank: usize, peers: &[String], secret: &[u8], timeout: Duration) -> Result<Job> {
    let options = JoinOptions { rank, peers: peers.to_vec(), secret: secret.to_vec(), timeout };
    Job::join(listener, options, &|| false)
}

/// Runs a function on each of `n` ranks and returns the results by rank.
fn on_ranks<T: Send>(n: usize, timeout: Duration, run: impl Fn(usize, Arc<Job>) -> T + Sync) -> Vec<T> {
    let (listeners, peers) = listeners(n);
    thread::scope(|scope| {
        let threads: Vec<_> = listeners
            .into_iter()
            .enumerate()
            .map(|(rank, listener)| {
                let (run, peers) = (&run, &peers);
                scope.spawn(move || run(rank, Arc::new(join(listener, rank, peers, SECRET, timeout).unwrap())))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// The gradient of a key and shard: numbers whose sum depends on the order of additions.
fn gradient(key: usize, shard: usize, step: usize, len: usize) -> Vec<f32> {
    let mut x = (key * 7919 + shard * 104_729 + step * 1_299_709 + 1) as u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as f32 / 8e6 * if x & 1 == 0 { 1.0 } else { 1e-4 }
    };
    (0..len).map(|_| next() - 1.0).collect()
}

const LENS: [usize; 4] = [5, 30_011, 1, 1_300_003];

/// Two steps of training by `size` ranks; the bits of all weights.
fn train(shards: usize, size: usize, compress: bool) -> Vec<Vec<u32>> {
    let mut weights = on_ranks(size, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        if compress {
            store.set_compression(&Attrs::from([("type".to_string(), "2bit".to_string())])).unwrap();
        }
        let outs: Vec<_> = LENS.iter().map(|len| tensor(&vec![0.0; *len])).collect();
        let keys: Vec<_> = (0..LENS.len() as i32).map(Key::Number).collect();
        for (key, len) in LENS.iter().enumerate() {
            // Only the values of rank 0 are used.
            let first = tensor(&vec![1.0 + rank as f32; *len]);
            store.init(&keys[key..=key], &[first]).unwrap();
        }
        store.set_updater(Arc::new(|Update { pushed, stored, .. }| {
            call("elemwise_sub", std::iter::empty(), &[stored.clone(), pushed], &[stored]).map(|_| ())
        }));
        let per_rank = shards / size;
        for step in 0..2 {
            for (key, len) in LENS.iter().enumerate() {
                let own = (rank * per_rank..(rank + 1) * per_rank).map(|s| tensor(&gradient(key, s, step, *len)));
                store.push(&vec![keys[key].clone(); per_rank], &own.collect::<Vec<_>>()).unwrap();
            }
            store.pull(&keys, &outs).unwrap();
        }
        outs.iter().map(|out| numbers(out).iter().map(|x| x.to_bits()).collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    assert!(weights.iter().all(|w| *w == weights[0]), "ranks differ");
    weights.swap_remove(0)
}

#[test]
fn weights_have_the_same_bits_for_every_number_of_ranks() {
    for (shards, sizes) in [(8, [1, 2, 4]), (6, [2, 3, 6])] {
        for compress in [false, true] {
            let alone = train(shards, 1, compress);
            for size in sizes {
                assert!(train(shards, size, compress) == alone, "{shards} shards on {size} ranks, {compress}");
            }
        }
    }
}

/// Two layers, whose gradients fill several buckets, bound for a shard.
fn network(shard: usize) -> Executor {
    let mut x = Symbol::variable("data", Attrs::new());
    for (name, size) in [("one", "1100"), ("two", "1000")] {
        x = Symbol::op("FullyConnected", name, &[x], &[("num_hidden", size)]).unwrap();
    }
    let symbol = Symbol::op("LinearRegressionOutput", "out", &[x], &[]).unwrap();
    let names = symbol.list_arguments();
    let reqs = names.iter().map(|name| if is_parameter(name) { Req::Write } else { Req::Null }).collect();
    let shapes = vec![("data".to_string(), Shape::new(&[2, 7]))];
    let executor = SimpleBind { shapes, reqs, ..Default::default() }.bind(&symbol).unwrap();
    for (i, (name, array)) in names.iter().zip(executor.args()).enumerate() {
        let shard = if is_parameter(name) { 0 } else { shard };
        array.copy_from_slice(&gradient(i, shard, 0, array.len())).unwrap();
    }
    executor
}

fn is_parameter(name: &str) -> bool {
    name.ends_with("weight") || name.ends_with("bias")
}

/// The keys of the parameters, and their gradients in each executor.
fn gradients_of(executors: &[Executor]) -> Vec<(Key, Vec<Arc<Tensor>>)> {
    let names = executors[0].symbol().list_arguments().into_iter().enumerate();
    names
        .filter(|(_, name)| is_parameter(name))
        .map(|(i, name)| {
            let arrays = executors.iter().map(|e| Arc::new(Tensor::new(e.grads()[i].clone().unwrap())));
            (Key::Name(name), arrays.collect())
        })
        .collect()
}

/// The sums of the gradients of four shards, pushed during or after the backward pass of the last shard of each rank.
fn sums_of_gradients(size: usize, is_overlapped: bool) -> Vec<Vec<f32>> {
    const SHARDS: usize = 4;
    let mut sums = on_ranks(size, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        let per_rank = SHARDS / size;
        let executors: Vec<_> = (rank * per_rank..(rank + 1) * per_rank).map(network).collect();
        let gradients = gradients_of(&executors);
        for (key, arrays) in &gradients {
            store.init(std::slice::from_ref(key), &arrays[..1]).unwrap();
        }
        executors.iter().for_each(|e| e.forward(Mode::Training).unwrap());
        executors[..per_rank - 1].iter().for_each(|e| e.backward(&[], Mode::Training).unwrap());
        let keys: Vec<Key> = gradients.iter().flat_map(|(key, arrays)| vec![key.clone(); arrays.len()]).collect();
        let arrays: Vec<_> = gradients.iter().flat_map(|(_, arrays)| arrays.clone()).collect();
        if is_overlapped {
            store.push_in_backward(&executors[per_rank - 1], (&[], Mode::Training), &keys, &arrays).unwrap();
        } else {
            executors[per_rank - 1].backward(&[], Mode::Training).unwrap();
            store.push(&keys, &arrays).unwrap();
        }
        let pull = |(key, arrays): &(Key, Vec<Arc<Tensor>>)| {
            store.pull(std::slice::from_ref(key), &arrays[..1]).unwrap();
            numbers(&arrays[0])
        };
        gradients.iter().map(pull).collect::<Vec<_>>()
    });
    assert!(sums.iter().all(|s| *s == sums[0]), "ranks differ");
    sums.swap_remove(0)
}

#[test]
fn gradients_pushed_during_the_backward_pass_have_the_same_sums() {
    let expected = sums_of_gradients(1, false);
    assert!(expected.iter().all(|sum| sum.iter().any(|x| *x != 0.0)));
    for size in [1, 2, 4] {
        assert!(sums_of_gradients(size, true) == expected, "{size} ranks");
    }
}

#[test]
fn a_rank_lost_during_the_backward_pass_is_named() {
    let errors = on_ranks(2, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        let executors = [network(rank)];
        let gradients = gradients_of(&executors);
        for (key, arrays) in &gradients {
            store.init(std::slice::from_ref(key), arrays).unwrap();
        }
        let (keys, arrays): (Vec<_>, Vec<_>) = gradients.into_iter().map(|(key, mut a)| (key, a.remove(0))).unzip();
        executors[0].forward(Mode::Training).unwrap();
        if rank == 1 {
            let mut num_pushed = 0;
            let mut push_first = |arg: usize| {
                if num_pushed == 1 {
                    job.break_connections();
                    return Err(Error::Value("killed".into()));
                }
                num_pushed += 1;
                let name = executors[0].symbol().list_arguments().swap_remove(arg);
                let gradient = Arc::new(Tensor::new(executors[0].grads()[arg].clone().unwrap()));
                store.push(&[Key::Name(name)], &[gradient])
            };
            let error =
                executors[0].backward_stored(&[], Mode::Training, Some(&mut push_first)).unwrap_err().to_string();
            assert!(error.contains("killed"), "{error}");
            return String::new();
        }
        // The pass fails if it notices the loss; the pull fails otherwise.
        let result = store.push_in_backward(&executors[0], (&[], Mode::Training), &keys, &arrays);
        result.and_then(|()| store.pull(&keys, &arrays)).unwrap_err().to_string()
    });
    assert!(errors[0].contains("rank 1 (127.0.0.1:") && errors[0].contains("was lost"), "{errors:?}");
}

/// Pushes and sends arrays of alternating types, each of which needs a bucket of its own; returns the keys.
fn push_many(store: &KvStore, num_keys: i32) -> Vec<Key> {
    let keys: Vec<_> = (0..num_keys).map(Key::Number).collect();
    let array = |i: i32| {
        let x = f64::from(i);
        let array = if i % 2 == 0 { NDArray::from_slice(&[x], &[1]) } else { NDArray::from_slice(&[x as f32], &[1]) };
        Arc::new(Tensor::new(array.unwrap()))
    };
    let arrays: Vec<_> = (0..num_keys).map(array).collect();
    store.init(&keys, &arrays).unwrap();
    store.push(&keys, &arrays).unwrap();
    store.distributed().unwrap().send_incomplete_bucket().unwrap();
    keys
}

#[test]
fn a_push_does_not_wait_for_ranks_that_are_behind() {
    let (num_keys, is_pushed) = (50, Barrier::new(2));
    on_ranks(2, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        // The initial values are broadcast, which waits.
        let early = KvStore::of_job(&job, "dist_sync").unwrap();
        let one = tensor(&[1.0]);
        let keys: Vec<_> = (0..num_keys).map(Key::Number).collect();
        early.init(&keys, &vec![one.clone(); num_keys as usize]).unwrap();
        for (i, key) in keys.iter().enumerate() {
            if rank == 1 && i == 0 {
                is_pushed.wait();
            }
            early.push(std::slice::from_ref(key), std::slice::from_ref(&one)).unwrap();
            early.distributed().unwrap().send_incomplete_bucket().unwrap();
        }
        if rank == 0 {
            is_pushed.wait();
        }
        let outs: Vec<_> = keys.iter().map(|_| tensor(&[0.0])).collect();
        early.pull(&keys, &outs).unwrap();
        assert!(outs.iter().all(|out| numbers(out) == [2.0]));
        let keys = push_many(&store, num_keys);
        if rank == 0 {
            // The job ends after its queued operations.
            drop(store);
            job.close();
        } else {
            let outs: Vec<_> = keys.iter().map(|_| tensor(&[0.0])).collect();
            store.pull(&keys, &outs).unwrap();
            assert!(outs.iter().enumerate().all(|(i, out)| numbers(out) == [2.0 * i as f32]));
        }
    });
}

#[test]
fn shards_of_all_ranks_are_summed_in_their_type() {
    let sums = on_ranks(2, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_device_sync").unwrap();
        let of = |x: f64| Arc::new(Tensor::new(NDArray::from_slice(&[x, 2.0 * x], &[2]).unwrap()));
        let out = of(0.0);
        store.init(&[key("a")], std::slice::from_ref(&out)).unwrap();
        let keys = [key("a")];
        let pushed = KeyedArrays { keys: &keys, arrays: &[of(1.0 + rank as f64)] };
        store.push_pull(pushed, KeyedArrays { keys: &keys, arrays: std::slice::from_ref(&out) }).unwrap();
        store.barrier().unwrap();
        assert_eq!((store.rank(), store.num_workers().unwrap(), store.kind()), (rank, 2, "dist_device_sync"));
        out.array().unwrap().to_vec::<f64>().unwrap()
    });
    assert_eq!(sums, [[3.0, 6.0], [3.0, 6.0]]);
}

#[test]
fn a_store_may_be_dropped_before_its_sums_are_pulled() {
    on_ranks(2, TIMEOUT, |rank, job| {
        for _ in 0..20 {
            let store = KvStore::of_job(&job, "dist_sync").unwrap();
            store.init(&[key("a")], &[tensor(&[0.0; 20_000])]).unwrap();
            store.push(&[key("a")], &[tensor(&[1.0; 20_000])]).unwrap();
            thread::sleep(Duration::from_millis(5 * rank as u64));
            if rank == 0 {
                store.distributed().unwrap().send_incomplete_bucket().unwrap();
            } else {
                store.pull(&[key("a")], &[tensor(&[0.0; 20_000])]).unwrap();
            }
        }
        job.barrier().unwrap();
    });
}

#[test]
fn a_rank_that_closes_its_job_still_sums_gradients_that_arrive_later() {
    on_ranks(2, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        store.init(&[key("a")], &[tensor(&[0.0; 20_000])]).unwrap();
        thread::sleep(Duration::from_millis(300 * rank as u64));
        store.push(&[key("a")], &[tensor(&[1.0; 20_000])]).unwrap();
        store.distributed().unwrap().send_incomplete_bucket().unwrap();
        if rank == 0 {
            drop(store);
            job.close();
        } else {
            let sum = tensor(&[0.0; 20_000]);
            store.pull(&[key("a")], std::slice::from_ref(&sum)).unwrap();
            assert!(numbers(&sum).iter().all(|x| *x == 2.0));
        }
    });
}

#[test]
fn row_sparse_gradients_are_summed() {
    let sums = on_ranks(3, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        let shape = Shape::new(&[4, 2]);
        let rows = |ids: &[i64], x: f32| {
            let data = NDArray::from_slice(&vec![x; 2 * ids.len()], &[ids.len() as i64, 2]).unwrap();
            let ids = NDArray::from_slice(ids, &[ids.len() as i64]).unwrap();
            Arc::new(Tensor::new(SparseArray::row_sparse(&shape, data, ids).unwrap()))
        };
        store.init(&[key("a")], &[rows(&[0, 1, 2, 3], rank as f32)]).unwrap();
        store.push(&[key("a")], &[rows(&[rank as i64, 3], 1.0)]).unwrap();
        let out = rows(&[0], 0.0);
        store.pull_with_sparse(&[key("a")], std::slice::from_ref(&out), SparseOutputs::Write).unwrap();
        to_dense(&out.stored().unwrap()).unwrap().to_vec::<f32>().unwrap()
    });
    for sum in sums {
        assert_eq!(sum, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0]);
    }
}

#[test]
fn different_calls_are_an_error_on_all_ranks() {
    let errors = on_ranks(2, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        store.init(&[key("a")], &[tensor(&vec![0.0; 3 + rank])]).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|e| e.contains("other keys, shapes, types or numbers of shards")), "{errors:?}");
    assert!(errors.iter().all(|e| e.contains("rank 0 (127") || e.contains("rank 1 (127")), "{errors:?}");
}

#[test]
fn a_silent_rank_is_named_within_the_time_out() {
    let begin = Instant::now();
    let errors = on_ranks(3, Duration::from_millis(1500), |rank, job| {
        if rank == 2 {
            thread::sleep(Duration::from_secs(5));
        }
        job.barrier().unwrap_err().to_string()
    });
    assert!(errors[0].contains("rank 2 (127.0.0.1:") && errors[0].contains("did not answer"), "{errors:?}");
    assert!(errors[1].contains("rank 2 (127.0.0.1:"), "{errors:?}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_rank_that_leaves_is_named_and_stored_values_are_kept() {
    let initialized = Barrier::new(3);
    let errors = on_ranks(3, TIMEOUT, |rank, job| {
        let store = KvStore::of_job(&job, "dist_sync").unwrap();
        store.init(&[key("a")], &[tensor(&[7.0])]).unwrap();
        // A rank that has left causes errors in ranks that have made fewer calls.
        initialized.wait();
        if rank == 1 {
            return String::new();
        }
        // The first operation without the rank may fail at any of its messages.
        store.push(&[key("a")], &[tensor(&[1.0])]).ok();
        let error = store.barrier().unwrap_err().to_string();
        let out = tensor(&[0.0]);
        if store.pull(&[key("a")], std::slice::from_ref(&out)).is_ok() {
            // The push failed immediately, so no sum is missing.
            assert_eq!(numbers(&out), [7.0]);
        }
        error
    });
    for error in [&errors[0], &errors[2]] {
        assert!(error.contains("rank 1 (127.0.0.1:"), "{errors:?}");
    }
}

#[test]
fn closing_a_job_wakes_threads_that_wait() {
    let errors = on_ranks(2, TIMEOUT, |rank, job| {
        if rank == 1 {
            thread::sleep(Duration::from_millis(500));
            return String::new();
        }
        let other = job.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            other.close();
        });
        job.barrier().unwrap_err().to_string()
    });
    assert!(errors[0].contains("rank 0 has closed"), "{errors:?}");
}

#[test]
fn a_rank_with_a_wrong_secret_cannot_join() {
    let (listeners, peers) = listeners(2);
    let begin = Instant::now();
    let errors = thread::scope(|scope| {
        let threads: Vec<_> = listeners
            .into_iter()
            .zip([SECRET, b"fedcba9876543210"])
            .enumerate()
            .map(|(rank, (listener, secret))| {
                let peers = &peers;
                scope.spawn(move || join(listener, rank, peers, secret, Duration::from_secs(3)).err().unwrap())
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap().to_string()).collect::<Vec<_>>()
    });
    assert!(errors[0].contains("rank 1 (127.0.0.1:") && errors[0].contains("was refused"), "{errors:?}");
    assert!(
        errors[1].contains("rank 0 (127.0.0.1:") && errors[1].contains("does not have this job's secret"),
        "{errors:?}"
    );
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn joining_checks_its_arguments() {
    let error = |rank: usize, size: usize, secret: &[u8]| {
        let (mut listeners, peers) = listeners(size);
        join(listeners.swap_remove(0), rank, &peers, secret, TIMEOUT).err().unwrap().to_string()
    };
    assert!(error(2, 2, SECRET).contains("rank 2 is not among the 2 peers"));
    assert!(error(0, 2, b"short").contains("the secret of a distributed job has 5 bytes"));
}

/// Joins as rank 0 while unauthenticated peers hold connections open. Rank 1 has the secret, but then runs `act`. Returns the error.
fn with_hostile_rank(act: impl Fn(&mut TcpStream) + Send) -> String {
    let (mut listeners, mut peers) = listeners(1);
    peers.push("127.0.0.1:9".into());
    let address = peers[0].clone();
    let timeout = Duration::from_millis(1500);
    thread::scope(|scope| {
        scope.spawn(move || {
            let unauthenticated: Vec<_> = (0..5).map(|_| TcpStream::connect(&address).unwrap()).collect();
            let membership = Membership { rank: 1, size: 2, secret: SECRET.into(), timeout: TIMEOUT };
            let mut stream = connect::connect(&address, Purpose::Peer, &membership, Instant::now() + TIMEOUT).unwrap();
            act(&mut stream);
            drop(unauthenticated);
        });
        let begin = Instant::now();
        let job = join(listeners.remove(0), 0, &peers, SECRET, timeout).unwrap();
        // Let the reader detect the violation before the barrier times out.
        thread::sleep(timeout);
        let error = job.barrier().unwrap_err().to_string();
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        error
    })
}

#[test]
fn hostile_messages_are_errors_that_name_the_rank() {
    let header = |kind, sequence, digest, len| Header { kind, sequence, digest, len }.bytes();
    let check = |expected: &str, act: &(dyn Fn(&mut TcpStream) + Sync)| {
        let error = with_hostile_rank(act);
        assert!(error.contains("rank 1 (127.0.0.1:9)") && error.contains(expected), "{error}");
    };
    let send = |bytes: Vec<u8>| {
        move |stream: &mut TcpStream| {
            let _ = stream.write_all(&bytes);
            thread::sleep(Duration::from_secs(6));
        }
    };
    let huge = header(Kind::Contribution, 0, 0, u32::MAX as usize).to_vec();
    check("a message of 4294967295 bytes, while at most 4194304 are allowed", &send(huge));
    check("a message of kind 255", &send(vec![255; 64]));
    check("in the middle of a message", &send(header(Kind::Contribution, 0, 0, MAX_BODY).to_vec()));
    check("did not answer rank 0 within 1.5 s", &send(Vec::new()));
    check("was lost: the connection was closed", &|_| ());
    check(
        "sent 1 bytes where 0 were expected",
        &send([header(Kind::Contribution, 0, 0, 1).to_vec(), vec![0]].concat()),
    );
    check("calls ahead, which violates the protocol", &send(header(Kind::Contribution, 1001, 0, 0).to_vec()));
    check("other keys", &send(header(Kind::Contribution, 0, 5, 0).to_vec()));
}

#[test]
fn a_peer_with_another_protocol_is_rejected_by_the_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let membership = Membership { rank: 0, size: 2, secret: SECRET.into(), timeout: TIMEOUT };
    let acceptor = connect::Acceptor::open(listener, Purpose::Peer, membership).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[b'x'; 200]).unwrap();
    let refusal = acceptor.incoming.recv_timeout(TIMEOUT).unwrap().unwrap_err();
    assert!(refusal.contains("it uses another protocol"), "{refusal}");
}
