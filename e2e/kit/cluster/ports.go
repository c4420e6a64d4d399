//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Ports from which FreePort chooses: below the ephemeral ones, so that no
// outgoing connection of the machine takes one between two starts of a node.
const (
	firstPort = 12000
	lastPort  = 32000
)

// Ports gives out free ports. A port belongs to this process until it ends,
// whether anything listens there or not: a locked file says so to the others.
type Ports struct {
	dir   string
	next  int
	locks []*os.File
}

// NewPorts starts at a place of its own, so that processes side by side rarely
// ask for the same port.
func NewPorts() (*Ports, error) {
	dir := filepath.Join(os.TempDir(), "shardway-e2e-ports")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("cluster: ports: %w", err)
	}
	return &Ports{dir: dir, next: firstPort + os.Getpid()*61%(lastPort-firstPort)}, nil
}

// Free returns a port at which nobody listens, TCP or UDP.
func (p *Ports) Free() (int, error) {
	for range lastPort - firstPort {
		port := p.next
		if p.next++; p.next > lastPort {
			p.next = firstPort
		}
		lock, err := p.lock(port)
		if err != nil {
			return 0, err
		}
		if lock == nil {
			continue
		}
		if unused(port) {
			p.locks = append(p.locks, lock)
			return port, nil
		}
		_ = lock.Close()
	}
	return 0, errors.New("cluster: no free port")
}

// lock is nil if another process holds the port.
func (p *Ports) lock(port int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(p.dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: ports: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, nil //nolint:nilerr,nilnil // held by another process is no error
	}
	return f, nil
}

// Close gives the ports back.
func (p *Ports) Close() {
	for _, f := range p.locks {
		_ = f.Close()
	}
	p.locks = nil
}

// unused asks by listening, on every address.
func unused(port int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var lc net.ListenConfig
	for _, host := range []string{"", "127.0.0.1"} {
		addr := fmt.Sprintf("%s:%d", host, port)
		ln, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return false
		}
		_ = ln.Close()
		pc, err := lc.ListenPacket(ctx, "udp", addr)
		if err != nil {
			return false
		}
		_ = pc.Close()
	}
	return true
}
