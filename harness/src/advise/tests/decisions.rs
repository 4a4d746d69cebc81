//! Every row of the decision guide from a concrete example.

use fabbench_reports::advice::{Advice, NetworkVerdict};

use super::*;
use crate::advise::answer::advise;

fn first(advice: &Advice) -> &str {
    &advice.recommendations[0].what
}

fn says(advice: &Advice, what: &str) -> bool {
    advice.recommendations.iter().any(|one| one.what == what)
}

fn ndr() -> [Link; 2] {
    [named("ndr", 8), named("tcp-25g", 1)]
}

#[test]
fn a_single_node_needs_no_fabric() {
    for scheme in [Scheme::Ddp, Scheme::Zero3] {
        let advice = advise(&question(train("7b", scheme, 4096.0, 8), ndr(), 1)).unwrap();
        assert_eq!(first(&advice), "No fast fabric is needed for this");
        assert_eq!(advice.now[1].verdict, NetworkVerdict::NotBound);
        assert!(
            advice.now.iter().all(|one| one.network_ns == 0.0 && one.network_ns.is_sign_positive())
        );
    }
}

#[test]
fn inference_over_two_to_four_nodes_by_pipeline_does_not_need_one() {
    for nodes in [2, 4] {
        let advice = advise(&question(infer("70b", 32, 8, nodes, 8), ndr(), nodes)).unwrap();
        assert_eq!(first(&advice), "Ethernet is enough", "{:?}", advice.now[1]);
    }
    // Independent replicas send nothing.
    let advice = advise(&question(infer("70b", 32, 8, 1, 8), ndr(), 4)).unwrap();
    assert_eq!(first(&advice), "No fast fabric is needed for this");
}

#[test]
fn inference_by_tensor_parallel_across_nodes_does() {
    let advice = advise(&question(infer("70b", 32, 16, 1, 8), ndr(), 2)).unwrap();
    assert_eq!(first(&advice), "RoCE or InfiniBand pays");
    assert!(says(&advice, "Keep tensor parallel inside the node"));
    assert_eq!(advice.now[1].verdict, NetworkVerdict::Bound);
}

#[test]
fn fine_tuning_on_one_or_two_nodes_usually_does_not() {
    let mut job = train("7b", Scheme::Ddp, 16384.0, 8);
    let Task::Train(lora) = &mut job.task else { panic!("not training") };
    lora.trainable = 0.005;
    let advice = advise(&question(job, ndr(), 2)).unwrap();
    assert_eq!(first(&advice), "Ethernet is enough");
    assert_eq!(advice.now[1].verdict, NetworkVerdict::NotBound);
    // All of 1.3 billion parameters, one A100 a node, on plain 100GbE.
    let links = [named("roce-100g", 1), named("tcp-100g", 1)];
    let mut job = train("1.3b", Scheme::Ddp, 16384.0, 1);
    job.compute = Compute::Flops(312e12 * 0.45);
    let advice = advise(&question(job, links, 2)).unwrap();
    assert_eq!(first(&advice), "Ethernet is enough", "{:?}", advice.now[1]);
}

#[test]
fn training_on_more_than_eight_nodes_does() {
    for (name, scheme) in [("7b", Scheme::Ddp), ("13b", Scheme::Hsdp), ("70b", Scheme::Zero3)] {
        let advice = advise(&question(train(name, scheme, 8192.0, 8), ndr(), 16)).unwrap();
        assert_eq!(first(&advice), "RoCE or InfiniBand pays");
        assert!(advice.now[0].verdict <= NetworkVerdict::Hidden, "{:?}", advice.now[0]);
        assert_eq!(advice.now[1].verdict, NetworkVerdict::Bound);
        assert!(says(&advice, "Or do more work between two exchanges"));
    }
}

#[test]
fn frontier_pretraining_needs_rdma_and_a_spine_that_holds() {
    let mut job = train("405b", Scheme::Zero1, 1.0, 8);
    job.parallel = Parallel { dp: None, tp: 8, pp: 16, cp: 1, ep: 1 };
    let Task::Train(plan) = &mut job.task else { panic!("not training") };
    plan.tokens = Tokens::PerStep(16e6);
    let mut question = question(job, ndr(), 2048);
    let advice = advise(&question).unwrap();
    assert_eq!(first(&advice), "RoCE or InfiniBand pays", "{:?}", advice.now);
    assert!(!says(&advice, "The spine is oversubscribed for this"));
    question.path.leaf = Some(32);
    question.path.oversubscription = 7.0;
    let advice = advise(&question).unwrap();
    assert!(says(&advice, "The spine is oversubscribed for this"), "{:?}", advice.now[0]);
}

#[test]
fn a_small_cluster_starts_with_ethernet_and_plans_for_its_target() {
    let links = [named("roce-100g", 1), named("tcp-100g", 1)];
    let mut job = train("1.3b", Scheme::Ddp, 32768.0, 1);
    job.compute = Compute::Flops(312e12 * 0.45);
    let mut question = question(job, links, 4);
    assert_eq!(first(&advise(&question).unwrap()), "Ethernet is enough");
    question.target = Some(32);
    question.path.oversubscription = 2.5;
    question.path.leaf = Some(16);
    let advice = advise(&question).unwrap();
    assert_eq!(first(&advice), "Ethernet first; plan RoCE or InfiniBand for the target");
    let nodes: Vec<u32> = advice.growth.iter().map(|row| row.nodes).collect();
    assert_eq!(nodes, [1, 2, 4, 8, 16, 32]);
    assert_eq!(advice.growth[5].estimates[1].verdict, advice.target[1].verdict);
}

#[test]
fn storage_on_the_training_plane_is_named_with_what_it_costs() {
    let mut question = question(train("7b", Scheme::Ddp, 8192.0, 8), ndr(), 8);
    question.path.storage = 2e9;
    question.path.checkpoint = Some(1800.0);
    let advice = advise(&question).unwrap();
    let found = advice.recommendations.iter().find(|one| one.what == "Separate the storage plane");
    assert!(found.unwrap().because.contains("Gb/s"), "{:?}", advice.recommendations);
    let mut without = question.clone();
    (without.path.storage, without.path.checkpoint) = (0.0, None);
    let without = advise(&without).unwrap();
    assert!(!says(&without, "Separate the storage plane"));
    assert!(without.now[1].network_ns < advice.now[1].network_ns);
}
