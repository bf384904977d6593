// Package qos trains and judges models that predict an application's latency on a node from
// that node's metrics (row C2 of the paper on a data-connector agent), on files like those
// that its authors published.
//
// What is predicted is the mean latency over the coming minute, from the node's CPU and
// memory over the last one. The application's own latency is no feature: a node that it may
// be moved to has none. The last value, which models are compared with, is that latency all
// the same: it is known only where the application runs.
//
// Nothing is judged by rows it was trained on. Of each file the first 70 % of the time train;
// then comes a gap as long as window and horizon; the rest is held out.
package qos
