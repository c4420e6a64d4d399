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

// firstPort and lastPort are the range of Ports.Free. It is below the ephemeral ports, so that no
// outgoing connection of the machine uses the port of a node between two starts of the node.
const (
	firstPort = 12000
	lastPort  = 32000
)

// Ports allocates free ports. A port stays reserved for this process until Close, even if nothing
// listens there: a locked file excludes other processes.
type Ports struct {
	dir   string
	next  int
	locks []*os.File
}

// NewPorts starts at a port that depends on the process ID, so that concurrent processes
// rarely try the same port.
func NewPorts() (*Ports, error) {
	dir := filepath.Join(os.TempDir(), "shardway-e2e-ports")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("cluster: ports: %w", err)
	}
	return &Ports{dir: dir, next: firstPort + os.Getpid()*61%(lastPort-firstPort)}, nil
}

// Free returns a port without a listener, for TCP and UDP.
func (p *Ports) Free() (int, error) {
	for range lastPort - firstPort {
		port := p.next
		if p.next++; p.next > lastPort {
			p.next = firstPort
		}
		lock, err := p.lockPort(port)
		if err != nil {
			return 0, err
		}
		if lock == nil {
			continue
		}
		if isFree(port) {
			p.locks = append(p.locks, lock)
			return port, nil
		}
		_ = lock.Close()
	}
	return 0, errors.New("cluster: no free port")
}

// lockPort returns nil if another process holds the port.
func (p *Ports) lockPort(port int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(p.dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: ports: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, nil //nolint:nilerr,nilnil // held by another process is no error
	}
	return file, nil
}

// Close releases the ports.
func (p *Ports) Close() {
	for _, file := range p.locks {
		_ = file.Close()
	}
	p.locks = nil
}

// isFree reports whether TCP and UDP can listen on the port, at all addresses and at 127.0.0.1.
func isFree(port int) bool {
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
