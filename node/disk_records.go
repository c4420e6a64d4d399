package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/past"
	"shardway/peer"
)

const (
	// twinLimit bounds the look for a process that is where gossip shows the node.
	twinProbeTimeout = 500 * time.Millisecond
	// keepEvery is how often at most what is known of other disks is written down.
	recordWriteEvery = time.Second
	// keepAgain is the pause before it is tried again.
	recordRetryPause = 10 * time.Second
)

// acquaintance is what this node says of its own disk and knows of those of
// others: see package past. It implements peer.Past.
type diskRecords struct {
	n     *Node
	table *past.Table
	// learning keeps what follows from what is learnt in the order in which it is.
	learnMu sync.Mutex
	// strangers have the servers whose process is not known.
	unknownServers *strangers
	// unread is why what was kept could not be read at the start; nil: it was.
	readErr error
}

var _ peer.Past = (*diskRecords)(nil)

// newAcquaintance begins with what the data directory holds. If that cannot be used it
// begins with nothing, and if it only cannot be read, it is taken as soon as it can be:
// the other voters know the same, and this node's own disk,
// which is well, would be condemned if it was put back to an older image for that.
func newDiskRecords(n *Node) *diskRecords {
	kept, err := n.o.Dir.Known()
	if err != nil {
		n.log.Warn().Err(err).Str("lost", "what the disks of other nodes have said: until they are heard again, this node takes an older image or a copy of one for the disk").
			Msg("disk records reset")
	}
	a := &diskRecords{n: n, table: past.New(kept), unknownServers: newStrangers()}
	if errors.Is(err, disk.ErrUnread) {
		a.readErr = err
	}
	return a
}

// keep writes down what is known, and takes what was kept before, if that could not be
// read yet.
func (a *diskRecords) write() error {
	err := a.n.o.Dir.KeepKnown(a.table.All())
	if !errors.Is(err, disk.ErrUnread) {
		return err
	}
	kept, err := a.n.o.Dir.Known()
	if errors.Is(err, disk.ErrUnread) {
		return err
	}
	if err != nil {
		a.n.log.Warn().Err(err).Msg("disk records reset")
	}
	a.table.Recall(kept)
	return a.n.o.Dir.KeepKnown(a.table.All())
}

// Own returns what this node says of its disk.
func (a *diskRecords) Own() peer.Record {
	s := a.ownStatement()
	return peer.Record{Nonce: s.Nonce, Term: s.Term, Last: s.Last, Applied: s.Applied}
}

// self is nothing while Raft is only beginning: nobody is spoken with yet.
func (a *diskRecords) ownStatement() past.Statement {
	select {
	case <-a.n.raftOpen:
	default:
		return past.Statement{}
	}
	// The term first: it may rise, and is to be one that was on the disk.
	term := a.n.raft.Term()
	applied := a.n.fsm.state.Load().Committed().Epoch()
	return past.Statement{
		Server: a.n.server, Boot: a.n.o.Dir.Boot(), Nonce: a.n.nonce,
		Term: term, Last: a.n.raft.LastIndex(), Applied: uint64(applied),
	}
}

// Known returns what is known of a node's disk.
func (a *diskRecords) Known(node, id string) (boot uint64, r peer.Record) {
	k := a.table.Of(consensus.ServerID(node, id))
	return k.Boot, peer.Record{Nonce: k.Nonce, Term: k.Term, Applied: k.Applied}
}

// present reports whether the process at the other end of a connection is the one that is known
// of its disk.
func (a *diskRecords) isCurrentProcess(far peer.Identity) bool {
	return a.table.Knows(past.Statement{Server: consensus.ServerID(far.Node, far.Disk), Nonce: far.Nonce})
}

// Meet judges who is at the other end of a Raft stream, and takes what it says. Of
// who has dialled, a new process is believed if no other one is where gossip shows
// the node: a copy that is started elsewhere must not pass for the node.
func (a *diskRecords) Meet(ctx context.Context, m peer.Meeting) (peer.Refusal, string) {
	far := past.Statement{
		Server: consensus.ServerID(m.Far.Node, m.Far.Disk), Boot: m.Far.Boot,
		Nonce: m.Far.Nonce, Term: m.Far.Term, Last: m.Far.Last, Applied: m.Far.Applied,
	}
	raft := m.Kind == peer.Raft
	if raft && m.Told.Nonce != 0 {
		told := disk.Known{Server: a.n.server, Boot: m.ToldBoot, Nonce: m.Told.Nonce, Term: m.Told.Term, Applied: m.Told.Applied}
		if err := past.Check(told, a.ownStatement()); err != nil {
			a.n.failStale(fmt.Errorf("node %q knows: %w", m.Far.Node, err))
			return peer.RefusedSelf, err.Error()
		}
	}
	if err := a.table.Judge(far); err != nil {
		if raft {
			return peer.RefusedPast, err.Error()
		}
		return 0, "" // what it says counts for nothing
	}
	known := a.table.Knows(far)
	if !known {
		a.onUnknownProcess()
	}
	if !known && !m.Dialled {
		if !raft {
			a.greetLater(far.Server)
			return 0, ""
		}
		if addr := a.otherProcess(ctx, m.Far); addr != "" {
			return peer.RefusedTwin, fmt.Sprintf("node %q is the process at %s", m.Far.Node, addr)
		}
	}
	if err := a.learn(far); err != nil && raft { // another one was quicker
		return peer.RefusedPast, err.Error()
	}
	return 0, ""
}

// learn takes what is said of a disk. What is left of connections to a process before the
// one that says it leads nowhere. What a process says may be overtaken by what it says later:
// it is what is known then that counts.
func (a *diskRecords) learn(s past.Statement) error {
	if s.Nonce == 0 {
		return nil // it has not begun to speak
	}
	a.learnMu.Lock()
	defer a.learnMu.Unlock()
	before := a.table.Of(s.Server)
	if err := a.table.Learn(s); err != nil {
		return err
	}
	now := a.table.Of(s.Server)
	if before.Nonce != now.Nonce {
		a.n.stream.CloseOtherProcesses(s.Server, now.Nonce)
	}
	if before.Nonce != now.Nonce || before.Boot != now.Boot {
		a.n.proxy.Follow(nodeOf(s.Server), now.Boot, now.Nonce)
	}
	return nil
}

// returned has a leader say at once that it leads: a process has come that was not known.
func (a *diskRecords) onUnknownProcess() {
	select {
	case <-a.n.raftOpen:
		a.n.raft.Greet()
	default:
	}
}

// strange has a voter greeted back whose process is not known.
func (a *diskRecords) greetLater(server string) {
	select {
	case <-a.n.raftOpen:
		a.unknownServers.add(server, a.n.otherVoters())
	default:
	}
}

// elsewhere returns where another process than this one is the node, or "".
func (a *diskRecords) otherProcess(ctx context.Context, far peer.Identity) string {
	if far.Nonce == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, twinProbeTimeout)
	defer cancel()
	return a.n.twin.Probe(ctx, far.Node, far.Nonce)
}

// judge returns why a heartbeat is one of a disk that has gone back, nil if it is
// not. A heartbeat does not say how far the log reaches.
func (a *diskRecords) check(hb ack.Heartbeat) error { return a.table.Judge(heartbeatStatement(hb)) }

// heard takes what a heartbeat says that the leader has nothing against.
func (a *diskRecords) learnHeartbeat(hb ack.Heartbeat) {
	if nodeOf(hb.Server) != string(hb.Node) {
		return
	}
	_ = a.learn(heartbeatStatement(hb)) // it is one of an older image: the leader has judged that
}

func heartbeatStatement(hb ack.Heartbeat) past.Statement {
	return past.Statement{
		Server: hb.Server, Boot: hb.Boot, Nonce: hb.Nonce, Term: hb.Term, Applied: uint64(hb.Applied), Last: ^uint64(0),
	}
}

// dialRaft dials once this node can say how its disk is. Who refuses it for that
// knows more of this disk than is on it.
func (n *Node) dialRaft(ctx context.Context, node, id string) (c net.Conn, err error) {
	select {
	case <-n.raftOpen:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err = consensus.Over(n.port)(ctx, node, id)
	if re, ok := errors.AsType[*peer.RefusedError](err); ok && re.Code == peer.RefusedPast {
		n.failStale(fmt.Errorf("node %q knows: %s", node, re.Reason))
	}
	return c, err
}

// staleError stops a node whose data directory is an older image, or a copy.
type staleDiskError struct{ why error }

func (e *staleDiskError) Error() string {
	return "node: the data directory must not be used any more: " + e.why.Error() + ": " + disk.RemedyStale
}

// rolledBack is what the leader means by its answer.
func rollbackError(a ack.Answer) error {
	what := fmt.Sprintf("it was in a later term than it is, in its boot %d", a.Known)
	switch {
	case a.Known > a.Boot:
		what = fmt.Sprintf("this is its boot %d, and its boot %d is known", a.Boot, a.Known)
	case a.Known == a.Boot:
		what = fmt.Sprintf("another process was its boot %d", a.Boot)
	}
	return fmt.Errorf("the leader knows that this disk is an older image of itself or a copy: %s", what)
}

func (n *Node) failStale(why error) { n.fail(&staleDiskError{why: why}) }

// keepKnown writes down what is known of other disks as it changes.
//
// That it cannot be written stops nothing: heartbeats and votes do not wait for it,
// and a node that is killed forgets the last second of it in any case. What is lost
// is what this node would know after its next start, and the other voters know the
// same. A disk on which nothing can be written stops the node by what Raft writes.
func (n *Node) persistDiskRecords(ctx context.Context) {
	lastErr := n.diskRecords.readErr // or the last write's, which is made again
	var retry <-chan time.Time
	if lastErr != nil {
		retry = time.After(recordRetryPause)
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-n.diskRecords.table.Changed():
			if lastErr != nil {
				continue // it is written with the next try
			}
		case <-retry:
		}
		if lastErr = n.writeDiskRecords(ctx, lastErr); lastErr != nil {
			retry = time.After(recordRetryPause)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(recordWriteEvery):
		}
	}
	unwritten := lastErr != nil
	select {
	case <-n.diskRecords.table.Changed():
		unwritten = true
	default:
	}
	if unwritten {
		_ = n.writeDiskRecords(ctx, lastErr) // it has said why
	}
}

// writeKnown waits for the disk; once ctx has ended, not for one that hangs. Of
// several failures in a row it tells the first.
func (n *Node) writeDiskRecords(ctx context.Context, lastErr error) error {
	written := make(chan error, 1)
	go func() { written <- n.diskRecords.write() }()
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		select {
		case err = <-written:
		case <-time.After(raftStop):
			return lastErr
		}
	}
	switch {
	case err != nil && lastErr == nil:
		n.log.Warn().Err(err).Str("lost", "what this node would know of the disks of others after its next start; the other voters know the same").
			Msg("disk records not written, retrying")
	case err == nil && lastErr != nil:
		n.log.Info().Msg("disk records written again")
	}
	return err
}
