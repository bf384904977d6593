package external

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	pb "github.com/mash2-io/mash2/serve/external/externalscaler"
)

// Listener serves a Server until its context ends. It implements controller-runtime's
// Runnable, and runs whether or not this process leads.
type Listener struct {
	Server   *Server
	Listener net.Listener
	// TLS is nil for plain connections.
	TLS *tls.Config
	// Panicked is told of a panic in a call, with its stack.
	Panicked func(what string, value any, stack []byte)
	// Before is done first; nil for nothing.
	Before func(context.Context) error
}

// NeedLeaderElection implements controller-runtime's LeaderElectionRunnable.
func (*Listener) NeedLeaderElection() bool { return false }

// What a client may ask of the server: a ScaledObject's metadata are some lines. KEDA has one connection
// to a scaler, with two streams of each ScaledObject that is pushed to, and its other calls wait where
// there are too many: these are enough for 5,000 of them and 6,384 calls at once.
const (
	maxMessage = 64 << 10
	maxStreams = 1 << 14
)

// Start serves until ctx ends.
func (l *Listener) Start(ctx context.Context) error {
	if l.Before != nil {
		if err := l.Before(ctx); err != nil {
			return err
		}
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(l.unary), grpc.StreamInterceptor(l.stream),
	}
	if l.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(l.TLS)))
	}
	server := grpc.NewServer(options...)
	pb.RegisterExternalScalerServer(server, l.Server)
	stop := context.AfterFunc(ctx, server.Stop) // streams have no end of their own
	defer stop()
	if err := server.Serve(l.Listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving KEDA: %w", err)
	}
	return nil
}

// unary answers a panic with an error: it must not end the operator.
func (l *Listener) unary(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	defer l.recovered(info.FullMethod, &err)
	return handle(ctx, in)
}

func (l *Listener) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer l.recovered(info.FullMethod, &err)
	return handle(server, stream)
}

func (l *Listener) recovered(method string, err *error) {
	value := recover()
	if value == nil {
		return
	}
	*err = status.Errorf(codes.Internal, "%s panicked", method)
	if l.Panicked != nil {
		l.Panicked(method, value, debug.Stack())
	}
}
