package node_test

import (
	"errors"
	"sync/atomic"
	"time"
)

// logGate holds back what a node's log brings.
type logGate struct{ shut atomic.Pointer[chan struct{}] }

func (g *logGate) wait() {
	if c := g.shut.Load(); c != nil {
		<-*c
	}
}

func (g *logGate) close() {
	c := make(chan struct{})
	g.shut.CompareAndSwap(nil, &c)
}

func (g *logGate) open() {
	if c := g.shut.Swap(nil); c != nil {
		close(*c)
	}
}

var errBroken = errors.New("input/output error")

// diskGate is what is wrong with a disk.
type diskGate struct {
	shut   atomic.Pointer[chan struct{}]
	delay  atomic.Int64
	broken atomic.Bool
}

// meet is the disk's Fault.
func (g *diskGate) meet(string) error {
	if c := g.shut.Load(); c != nil {
		<-*c
	}
	time.Sleep(time.Duration(g.delay.Load()))
	if g.broken.Load() {
		return errBroken
	}
	return nil
}

// hang makes writes hang.
func (g *diskGate) hang() {
	c := make(chan struct{})
	g.shut.CompareAndSwap(nil, &c)
}

// slow makes each write take so long.
func (g *diskGate) slow(d time.Duration) { g.delay.Store(int64(d)) }

// breaks makes writes fail.
func (g *diskGate) breaks() { g.broken.Store(true) }

// well mends it all.
func (g *diskGate) well() {
	g.delay.Store(0)
	g.broken.Store(false)
	if c := g.shut.Swap(nil); c != nil {
		close(*c)
	}
}
