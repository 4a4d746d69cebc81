//! The whole program as people run it, a module for each command; needs no RDMA device and no lab.

mod advise;
mod agent;
mod allreduce;
mod baseline;
mod bw;
mod ceiling;
mod check;
mod cli;
mod compare;
mod devices;
mod explain_perftest;
mod knobs;
mod lat;
mod launched;
mod output;
mod pair;
mod rate;
mod report;
mod softroce;
mod support;
mod together;
mod topo;
mod trend;
