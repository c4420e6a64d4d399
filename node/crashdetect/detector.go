package crashdetect

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
	"shardway/peer"
)

const (
	// redials is the maximum number of dials in one investigation, and redialPause the pause after the first one.
	// The pause doubles after each dial. The kernel closes the descriptors of a killed process one by one, so its
	// listener may still exist shortly after the connection was closed.
	redials     = 8
	redialPause = 5 * time.Millisecond
	// redialTimeout bounds one dial.
	redialTimeout = 200 * time.Millisecond
	// rememberFor is how long a closed connection is remembered for the next leader.
	rememberFor = 10 * time.Second
)

// OnRefused is called if no process listens at the address of a node whose heartbeat connection has closed.
// dialedAt is the clock time at which the dial started. If OnRefused returns true, the dial started too early to be
// evidence, and another dial follows.
type OnRefused func(node string, ended Process, dialedAt time.Duration) (mustRepeat bool)

// Process is the process at the other end of a heartbeat connection.
type Process struct {
	Boot uint64
	// Nonce is zero if the peer has not sent it, which means that the peer was the leader, which receives
	// heartbeats.
	Nonce uint64
}

// Detector determines whether the process of a node has exited after its heartbeat connection closed. It dials the
// node again: a refused connection is evidence that the process of the closed connection has crashed. A follower
// remembers closed connections for rememberFor, in case it is elected leader.
type Detector struct {
	port      *peer.Port
	clock     clock.Clock
	onRefused OnRefused

	ctx            context.Context // of Start
	investigations sync.WaitGroup

	mu struct {
		sync.Mutex
		closed        map[string]closedConn // the last closed heartbeat connection, by node
		investigating map[string]bool       // nodes with an investigation in progress
	}
}

// closedConn is the process of a closed heartbeat connection.
type closedConn struct {
	Process
	closedAt time.Time
}

// NewDetector returns a Detector that dials through port.
func NewDetector(port *peer.Port, c clock.Clock, onRefused OnRefused) *Detector {
	d := &Detector{port: port, clock: c, onRefused: onRefused}
	d.mu.closed, d.mu.investigating = map[string]closedConn{}, map[string]bool{}
	return d
}

// Start must be called before any other method. Investigations end with ctx.
func (d *Detector) Start(ctx context.Context) { d.ctx = ctx }

// Wait returns after the last investigation. The context of Start must have ended.
func (d *Detector) Wait() { d.investigations.Wait() }

// ConnClosed records that a heartbeat connection with a process of node has closed, and investigates the node. If
// several connections have the same boot, it uses the one with a nonce.
func (d *Detector) ConnClosed(node string, process Process) {
	d.recordClosed(node, process)
	d.investigate(node)
}

// Check dials a node that may have failed, although its heartbeat connection is open. onRefused is called if no process
// listens at its address. The context of onRefused ends with that of Start.
func (d *Detector) Check(node string, onRefused func(context.Context)) {
	if d.ctx.Err() != nil {
		return
	}
	d.investigations.Go(func() {
		if err := d.dial(node); peer.IsRefused(err) {
			onRefused(d.ctx)
		}
	})
}

// dial returns nil if a process responds at the node's address.
func (d *Detector) dial(node string) error {
	ctx, cancel := context.WithTimeout(d.ctx, redialTimeout)
	defer cancel()
	c, err := d.port.Dial(ctx, node, peer.Control)
	if err != nil {
		return err
	}
	_ = c.Close()
	return nil
}

// recordClosed records that a heartbeat connection with a process of node has closed.
func (d *Detector) recordClosed(node string, process Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	recorded, now := d.mu.closed[node], time.Now()
	if process.Nonce == 0 && process.Boot == recorded.Boot {
		process.Nonce = recorded.Nonce
	}
	// A lower boot number usually means an older process. But the numbers start again if the disk was
	// emptied, so a record that is older than rememberFor is replaced in any case.
	isOlderProcess := process.Boot < recorded.Boot
	isRecordOutdated := now.Sub(recorded.closedAt) > rememberFor
	if !isOlderProcess || isRecordOutdated {
		d.mu.closed[node] = closedConn{Process: process, closedAt: now}
	}
}

// Recheck investigates all nodes whose connections closed in the last rememberFor. For a new leader, evidence
// counts only if the redial began after its election.
func (d *Detector) Recheck() {
	for _, node := range d.recentlyClosed() {
		d.investigate(node)
	}
}

// recentlyClosed returns the nodes whose connections closed in the last rememberFor, and deletes older records.
func (d *Detector) recentlyClosed() (nodes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for node, closed := range d.mu.closed {
		if now.Sub(closed.closedAt) > rememberFor {
			delete(d.mu.closed, node)
			continue
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// investigate redials the node in the background. A node has one investigation at a time.
func (d *Detector) investigate(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.investigating[node] || d.ctx.Err() != nil {
		return
	}
	d.mu.investigating[node] = true
	process := d.mu.closed[node].Process
	d.investigations.Go(func() {
		for ok := true; ok; {
			d.redial(node, process)
			process, ok = d.nextProcess(node, process)
		}
	})
}

// nextProcess returns the process of node whose connection has closed after that of investigated. If there is
// none, or the context of Start has ended, it ends the investigation and returns false.
func (d *Detector) nextProcess(node string, investigated Process) (next Process, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if closed, ok := d.mu.closed[node]; ok && closed.Process != investigated && d.ctx.Err() == nil {
		return closed.Process, true
	}
	delete(d.mu.investigating, node)
	return Process{}, false
}

// redial dials a node, up to redials times, to find out whether its process has exited. It returns when a process
// responds or a refused dial is evidence. If the node does not respond, the leases decide.
func (d *Detector) redial(node string, process Process) {
	pause := redialPause
	for range redials {
		dialedAt := d.clock.Precise() // before the dial, because a refusal proves nothing about an earlier time
		err := d.dial(node)
		if err == nil {
			return
		}
		if peer.IsRefused(err) && !d.onRefused(node, process, dialedAt) {
			return
		}
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause *= 2
	}
}
