// Package serve shows what the operator does to those who look at it: metrics,
// log lines, Events and the status of ManagedWorkloads. It reads Cycle records
// and nothing else, and writes only to custom resources.
package serve
