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
	"shardway/node/diskhistory"
	"shardway/peer"
)

const (
	// twinProbeTimeout bounds the probe for another process with the same node ID, at the address that
	// gossip has for the node.
	twinProbeTimeout = 500 * time.Millisecond
	// recordWriteEvery is the shortest time between two writes of the records.
	recordWriteEvery = time.Second
	// recordRetryPause is the pause after a failed write.
	recordRetryPause = 10 * time.Second
)

// diskRecords contains what other nodes have stated about their disks, and creates the statement of
// this node. With it, nodes detect a data directory that was rolled back to an older image or copied
// (see package diskhistory). It implements peer.DiskRecords. Its methods may be called from any goroutine.
type diskRecords struct {
	n     *Node
	table *diskhistory.Table
	// learnMu makes learn run its follow-up actions in the order of the statements.
	learnMu sync.Mutex
	// unknownServers are the servers that have greeted with an unknown process.
	unknownServers *unknownServers
	// readErr is the error of reading the stored records at the start; nil means success.
	readErr error
}

var _ peer.DiskRecords = (*diskRecords)(nil)

// newDiskRecords reads the records in the data directory. If they are invalid, the records start
// empty. If the file cannot be read now, its records are added later, when it can be read. Neither
// stops the node: the other voters have the same records. If the node refused to start, an operator might
// restore an older image of this disk. The other nodes would refuse that image, although the disk was intact.
func newDiskRecords(n *Node) *diskRecords {
	kept, err := n.o.Dir.Known()
	if err != nil {
		n.log.Warn().Err(err).Str("lost", "records of the disks of other nodes: until those nodes send heartbeats again, this node does not detect an older or copied disk").
			Msg("disk records reset")
	}
	a := &diskRecords{n: n, table: diskhistory.New(kept), unknownServers: newUnknownServers()}
	if errors.Is(err, disk.ErrUnread) {
		a.readErr = err
	}
	return a
}

// write stores the records in the data directory. If the stored records could not be read yet, it
// first reads and adds them.
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

// LocalRecord returns the statement of this node about its own disk.
func (a *diskRecords) LocalRecord() peer.Record {
	s := a.ownStatement()
	return peer.Record{Nonce: s.Nonce, Term: s.Term, Last: s.Last, Applied: s.Applied}
}

// ownStatement returns the statement of this node about its own disk. It is zero until Raft has
// started, because this node sends no statements before.
func (a *diskRecords) ownStatement() diskhistory.Statement {
	select {
	case <-a.n.raftOpen:
	default:
		return diskhistory.Statement{}
	}
	// The term is read first: it may rise, and the statement must contain a term that was on the disk.
	term := a.n.raft.Term()
	applied := a.n.fsm.state.Load().Committed().Epoch()
	return diskhistory.Statement{
		Server: a.n.server, Boot: a.n.o.Dir.Boot(), Nonce: a.n.nonce,
		Term: term, Last: a.n.raft.LastIndex(), Applied: uint64(applied),
	}
}

// RecordOf returns the record of a node's disk. id is the ID of the disk.
func (a *diskRecords) RecordOf(node, id string) (boot uint64, r peer.Record) {
	k := a.table.Of(consensus.ServerID(node, id))
	return k.Boot, peer.Record{Nonce: k.Nonce, Term: k.Term, Applied: k.Applied}
}

// isCurrentProcess reports whether the process at the other end of a connection is the one in the
// record of its disk.
func (a *diskRecords) isCurrentProcess(far peer.Identity) bool {
	return a.table.Knows(diskhistory.Statement{Server: consensus.ServerID(far.Node, far.Disk), Nonce: far.Nonce})
}

// CheckHandshake checks the peer of a new stream and records its statement. It refuses only Raft streams. If an
// unknown process has dialed a Raft stream, CheckHandshake accepts it only if no other process responds at the
// address that gossip has for the node. Otherwise a copy of the data directory, started on another
// host, could act as the node. An unknown process that has dialed another kind of stream is greeted later.
// If the peer of a Raft stream has a newer record of this node's disk, CheckHandshake stops this node.
func (a *diskRecords) CheckHandshake(ctx context.Context, m peer.Handshake) (peer.Refusal, string) {
	far := diskhistory.Statement{
		Server: consensus.ServerID(m.Peer.Node, m.Peer.Disk), Boot: m.Peer.Boot,
		Nonce: m.Peer.Nonce, Term: m.Peer.Term, Last: m.Peer.Last, Applied: m.Peer.Applied,
	}
	raft := m.Kind == peer.Raft
	if raft && m.RecordKnownToPeer.Nonce != 0 {
		told := disk.Known{Server: a.n.server, Boot: m.BootKnownToPeer, Nonce: m.RecordKnownToPeer.Nonce, Term: m.RecordKnownToPeer.Term, Applied: m.RecordKnownToPeer.Applied}
		if err := diskhistory.Check(told, a.ownStatement()); err != nil {
			a.n.failStale(fmt.Errorf("node %q knows: %w", m.Peer.Node, err))
			return peer.RefusedStaleListenerDisk, err.Error()
		}
	}
	if err := a.table.Judge(far); err != nil {
		if raft {
			return peer.RefusedStaleDialerDisk, err.Error()
		}
		return 0, "" // the statement is not recorded
	}
	known := a.table.Knows(far)
	if !known {
		a.onUnknownProcess()
	}
	if !known && !m.Dialed {
		if !raft {
			a.greetLater(far.Server)
			return 0, ""
		}
		if addr := a.otherProcess(ctx, m.Peer); addr != "" {
			return peer.RefusedDuplicateNode, fmt.Sprintf("node %q is the process at %s", m.Peer.Node, addr)
		}
	}
	if err := a.learn(far); err != nil && raft { // another stream has recorded a newer statement
		return peer.RefusedStaleDialerDisk, err.Error()
	}
	return 0, ""
}

// learn records a statement about a disk, or returns an error if the record contradicts it. If the
// disk has a new process, it closes the streams to previous processes and informs the proxy.
// Statements of one process may arrive out of order, so the follow-up actions use the record after
// the update, not the statement.
func (a *diskRecords) learn(s diskhistory.Statement) error {
	if s.Nonce == 0 {
		return nil // the peer has not started Raft
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
		a.n.proxy.SetPeerProcess(consensus.NodeOf(s.Server), now.Boot, now.Nonce)
	}
	return nil
}

// onUnknownProcess makes this node send Raft heartbeats now if it leads, so that a process that has
// just started learns its leader at once.
func (a *diskRecords) onUnknownProcess() {
	select {
	case <-a.n.raftOpen:
		a.n.raft.AnnounceLeader()
	default:
	}
}

// greetLater schedules a greeting to a server with an unknown process, if it is a voter.
func (a *diskRecords) greetLater(server string) {
	select {
	case <-a.n.raftOpen:
		a.unknownServers.add(server, a.n.view.OtherVoters())
	default:
	}
}

// otherProcess probes the address that gossip has for the node of peer far. It returns the address if
// another process of the node responds there, otherwise "".
func (a *diskRecords) otherProcess(ctx context.Context, far peer.Identity) string {
	if far.Nonce == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, twinProbeTimeout)
	defer cancel()
	return a.n.duplicates.Probe(ctx, far.Node, far.Nonce)
}

// check returns an error if a heartbeat comes from a disk that was rolled back to an older image. A
// heartbeat does not contain the last index of the log, so check does not compare that.
func (a *diskRecords) check(hb ack.Heartbeat) error { return a.table.Judge(heartbeatStatement(hb)) }

// learnHeartbeat records the statement in a heartbeat that the leader has accepted.
func (a *diskRecords) learnHeartbeat(hb ack.Heartbeat) {
	if consensus.NodeOf(hb.Server) != string(hb.Node) {
		return
	}
	_ = a.learn(heartbeatStatement(hb)) // an error means an older image, and the leader has already checked that
}

// heartbeatStatement returns the statement in a heartbeat. Last is the largest index, because a
// heartbeat does not contain it.
func heartbeatStatement(hb ack.Heartbeat) diskhistory.Statement {
	return diskhistory.Statement{
		Server: hb.Server, Boot: hb.Boot, Nonce: hb.Nonce, Term: hb.Term, Applied: uint64(hb.Applied), Last: ^uint64(0),
	}
}

// dialRaft opens a Raft stream to a node. It waits until this node can create its own statement. A
// peer that refuses the statement has a newer record of this disk than the disk itself. In that
// case, dialRaft stops this node.
func (n *Node) dialRaft(ctx context.Context, node, id string) (c net.Conn, err error) {
	select {
	case <-n.raftOpen:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err = consensus.PeerDialer(n.port)(ctx, node, id)
	if re, ok := errors.AsType[*peer.RefusedError](err); ok && re.Code == peer.RefusedStaleDialerDisk {
		n.failStale(fmt.Errorf("node %q knows: %s", node, re.Reason))
	}
	return c, err
}

// staleDiskError stops a node whose data directory is an older image or a copy.
type staleDiskError struct{ why error }

// Error contains the reason and the remedy.
func (e *staleDiskError) Error() string {
	return "node: the data directory must not be used any more: " + e.why.Error() + ": " + disk.RemedyStale
}

// rollbackError converts the leader's refusal of a heartbeat, RefusedRollback, to an error.
func rollbackError(a ack.Answer) error {
	what := fmt.Sprintf("it was in a later term than it is, in its boot %d", a.KnownBoot)
	switch {
	case a.KnownBoot > a.Boot:
		what = fmt.Sprintf("this is its boot %d, and its boot %d is known", a.Boot, a.KnownBoot)
	case a.KnownBoot == a.Boot:
		what = fmt.Sprintf("another process was its boot %d", a.Boot)
	}
	return fmt.Errorf("the leader knows that this disk is an older image of itself or a copy: %s", what)
}

// failStale stops the node with a staleDiskError.
func (n *Node) failStale(why error) { n.fail(&staleDiskError{why: why}) }

// persistDiskRecords writes the records when they have changed, until ctx ends, and then once more.
//
// A failed write stops nothing: heartbeats and votes do not wait for it, and a node that is killed
// loses the last second of changes anyway. After the next start, this node would lack the records that
// were not written, but the other voters have the same ones. A disk that accepts no writes at all
// stops the node through the writes of Raft.
func (n *Node) persistDiskRecords(ctx context.Context) {
	lastErr := n.diskRecords.readErr // the error of the read at the start, or of the last write; a write is retried
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
				continue // the retry writes this change, too
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
		_ = n.writeDiskRecords(ctx, lastErr) // writeDiskRecords has logged the error
	}
}

// writeDiskRecords writes the records and returns the error. After ctx ends it waits up to raftStop for
// a stalled disk. lastErr is the result of the previous write: only the first of several failures in a
// row is logged.
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
