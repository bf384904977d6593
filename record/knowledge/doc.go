// Package knowledge keeps what was learnt and decided, for longer than records are kept
// and small enough to search: models, runs, scores, values of sensors, and decisions. It
// is the knowledge base of the autonomic loop (Kephart and Chess, The Vision of Autonomic
// Computing, 2003).
//
// [Gatherer] derives entries from records, so a folder of records without a knowledge base
// has the same to tell. [Store] keeps entries in one file beside the records. [MLflowRuns]
// turns entries into calls of MLflow's REST API.
//
// Plans of replicas and nodes are not here: records have them, and mash2 explain tells why.
package knowledge
