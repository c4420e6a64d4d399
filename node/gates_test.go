package node_test

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/e2e/kit/history"
)

// logGate delays the log entries of a node.
type logGate struct {
	shut atomic.Pointer[chan struct{}]
	ills ills
	// before, if not nil, runs before each entry. It must be set before the node starts.
	before func()
}

// ills records the faults that gates inject into a node. The zero value records nothing.
type ills struct {
	hurt   func(history.FaultKind) (mended func())
	mended map[history.FaultKind]func()
}

func (i *ills) begin(k history.FaultKind) {
	i.end(k)
	if i.hurt != nil {
		i.mended[k] = i.hurt(k)
	}
}

func (i *ills) end(kinds ...history.FaultKind) {
	for _, k := range kinds {
		if mended := i.mended[k]; mended != nil {
			mended()
			delete(i.mended, k)
		}
	}
}

func (g *logGate) wait() {
	if g.before != nil {
		g.before()
	}
	if c := g.shut.Load(); c != nil {
		<-*c
	}
}

func (g *logGate) close() {
	g.ills.begin(history.LogDelayed)
	c := make(chan struct{})
	g.shut.CompareAndSwap(nil, &c)
}

func (g *logGate) open() {
	g.ills.end(history.LogDelayed)
	if c := g.shut.Swap(nil); c != nil {
		close(*c)
	}
}

var errBroken = errors.New("input/output error")

// diskGate injects faults into a disk.
type diskGate struct {
	shut   atomic.Pointer[chan struct{}]
	delay  atomic.Int64
	broken atomic.Bool
	ills   ills
}

// meet is the Fault function of the disk: it delays, blocks or fails an operation.
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

// hang makes writes block.
func (g *diskGate) hang() {
	g.ills.begin(history.DiskFault)
	c := make(chan struct{})
	g.shut.CompareAndSwap(nil, &c)
}

// slow delays each write by d.
func (g *diskGate) slow(d time.Duration) {
	if g.ills.end(history.LogDelayed); d > 0 {
		g.ills.begin(history.LogDelayed)
	}
	g.delay.Store(int64(d))
}

// breaks makes writes fail.
func (g *diskGate) breaks() {
	g.ills.begin(history.DiskFault)
	g.broken.Store(true)
}

// well ends all faults.
func (g *diskGate) well() {
	g.ills.end(history.LogDelayed, history.DiskFault)
	g.delay.Store(0)
	g.broken.Store(false)
	if c := g.shut.Swap(nil); c != nil {
		close(*c)
	}
}
