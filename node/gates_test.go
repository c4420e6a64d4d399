package node_test

import (
	"errors"
	"sync/atomic"
	"time"

	"shardway/e2e/kit/history"
)

// logGate holds back what a node's log brings.
type logGate struct {
	shut atomic.Pointer[chan struct{}]
	ills ills
	// before, when set, runs before each entry; to be set before the node starts.
	before func()
}

// ills notes what is done to a node by a gate. Zero notes nothing.
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

// diskGate is what is wrong with a disk.
type diskGate struct {
	shut   atomic.Pointer[chan struct{}]
	delay  atomic.Int64
	broken atomic.Bool
	ills   ills
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
	g.ills.begin(history.DiskFault)
	c := make(chan struct{})
	g.shut.CompareAndSwap(nil, &c)
}

// slow makes each write take so long.
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

// well mends it all.
func (g *diskGate) well() {
	g.ills.end(history.LogDelayed, history.DiskFault)
	g.delay.Store(0)
	g.broken.Store(false)
	if c := g.shut.Swap(nil); c != nil {
		close(*c)
	}
}
