// Package externalscaler is the protocol by which KEDA asks an external scaler, generated
// from externalscaler.proto.
package externalscaler

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative externalscaler.proto
