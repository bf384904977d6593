package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below Linux's ephemeral range (32768 upwards by
// default), so that no outgoing connection grabs one between the moment it is
// chosen and the moment the component binds it.
const (
	firstPort = 20000
	lastPort  = 32000
)

// portLease holds TCP ports on 127.0.0.1 for this process: a Unix socket in
// the abstract namespace per port says that it is taken. Like ports, abstract
// sockets belong to the network namespace, and the kernel frees them when the
// process ends in whatever way, so several clusters side by side never choose
// the same port and nothing is left behind.
type portLease struct{ locks []net.Listener }

// take reserves a free port.
func (l *portLease) take() (int, error) {
	const attempts = 1000
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := net.Listen("unix", fmt.Sprintf("@mash2-localkube-port-%d", port))
		if err != nil {
			continue // another cluster's
		}
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = lock.Close()
			continue // another program's
		}
		_ = probe.Close()
		l.locks = append(l.locks, lock)
		return port, nil
	}
	return 0, errors.New("no free port between 20000 and 32000 on 127.0.0.1")
}

func (l *portLease) release() {
	for _, lock := range l.locks {
		_ = lock.Close()
	}
}
