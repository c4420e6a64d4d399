package identity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/diskhistory"
	"shardway/peer"
	"shardway/shardmap"
)

const (
	// stallTimeout is how long Run waits for a stalled disk after its context ends.
	stallTimeout = 3 * time.Second
	// processProbeTimeout bounds the probe for another process with the same node ID, at the address that
	// gossip has for the node.
	processProbeTimeout = 500 * time.Millisecond
	// writeEvery is the minimum time between two writes of the records.
	writeEvery = time.Second
	// writeRetryPause is the pause after a failed write.
	writeRetryPause = 10 * time.Second
)

// RecordsOptions contains what Records needs of its node.
type RecordsOptions struct {
	// Server is the Raft server ID of this node, and Nonce the random number of this process.
	Server string
	Nonce  uint64
	Dir    *disk.Dir
	View   *cluster.View
	Log    zerolog.Logger
	// Raft returns the Raft server, or nil if it has not started yet.
	Raft func() *consensus.Raft
	// AppliedEpoch returns the epoch of the committed map that this node has applied.
	AppliedEpoch func() shardmap.Epoch
	// CloseOtherStreams closes the Raft streams to all processes of a server except the one with this nonce.
	CloseOtherStreams func(server string, nonce uint64)
	// SetPeerProcess informs the proxy of the current process of a node.
	SetPeerProcess func(node string, boot, nonce uint64)
	// ProbeDuplicate returns the address of a process of a node other than the one with this nonce, or "" if there
	// is none.
	ProbeDuplicate func(ctx context.Context, node string, nonce uint64) (addr string)
	// Fail stops the node.
	Fail func(error)
}

// Records contains what other nodes have stated about their disks, and creates the statement of
// this node. With it, nodes detect a data directory that was rolled back to an older image or copied
// (see package diskhistory). It implements peer.DiskRecords. Its methods may be called from any goroutine.
type Records struct {
	options RecordsOptions
	table   *diskhistory.Table
	// learnMu makes learn run its follow-up actions in the order of the statements.
	learnMu sync.Mutex
	// unknownServers are the servers that have greeted with an unknown process.
	unknownServers *unknownServers
	// readErr is the error of reading the stored records at the start.
	readErr error
}

var _ peer.DiskRecords = (*Records)(nil)

// NewRecords reads the records in the data directory. If they are invalid, the records start
// empty. If the file cannot be read now, its records are added later, when it can be read. Neither
// stops the node: the other voters have the same records. If the node refused to start, an operator might
// restore an older image of this disk. The other nodes would refuse that image, although the disk was intact.
func NewRecords(options RecordsOptions) *Records {
	kept, err := options.Dir.DiskRecords()
	if err != nil {
		options.Log.Warn().Err(err).Str("lost", "records of the disks of other nodes: until those nodes send heartbeats again, this node does not detect an older or copied disk").
			Msg("disk records reset")
	}
	r := &Records{options: options, table: diskhistory.New(kept), unknownServers: newUnknownServers()}
	if errors.Is(err, disk.ErrUnreadable) {
		r.readErr = err
	}
	return r
}

// write stores the records in the data directory. If the stored records could not be read yet, it
// first reads and adds them.
func (r *Records) write() error {
	err := r.options.Dir.StoreDiskRecords(r.table.All())
	if !errors.Is(err, disk.ErrUnreadable) {
		return err
	}
	kept, err := r.options.Dir.DiskRecords()
	if errors.Is(err, disk.ErrUnreadable) {
		return err
	}
	if err != nil {
		r.options.Log.Warn().Err(err).Msg("disk records reset")
	}
	r.table.Recall(kept)
	return r.options.Dir.StoreDiskRecords(r.table.All())
}

// LocalRecord returns the statement of this node about its own disk.
func (r *Records) LocalRecord() peer.Record {
	s := r.ownStatement()
	return peer.Record{Nonce: s.Nonce, Term: s.Term, Last: s.Last, Applied: s.Applied}
}

// ownStatement returns the statement of this node about its own disk. It is zero until Raft has
// started, because this node sends no statements earlier.
func (r *Records) ownStatement() diskhistory.Statement {
	raft := r.options.Raft()
	if raft == nil {
		return diskhistory.Statement{}
	}
	// The term is read first because it may rise, and the statement must contain a term that was on the disk.
	term := raft.Term()
	applied := r.options.AppliedEpoch() // read before the last index, which it must not exceed
	return diskhistory.Statement{
		Server: r.options.Server, Boot: r.options.Dir.Boot(), Nonce: r.options.Nonce,
		Term: term, Last: raft.LastIndex(), Applied: uint64(applied),
	}
}

// RecordOf returns the record of a node's disk. id is the ID of the disk.
func (r *Records) RecordOf(node, id string) (boot uint64, record peer.Record) {
	k := r.table.Of(consensus.ServerID(node, id))
	return k.Boot, peer.Record{Nonce: k.Nonce, Term: k.Term, Applied: k.Applied}
}

// IsCurrentProcess reports whether the process at the other end of a connection is the one in the
// record of its disk.
func (r *Records) IsCurrentProcess(far peer.Identity) bool {
	return r.table.Knows(diskhistory.Statement{Server: consensus.ServerID(far.Node, far.Disk), Nonce: far.Nonce})
}

// CheckHandshake checks the peer of a new stream and records its statement. It refuses only Raft streams. If an
// unknown process has dialed a Raft stream, CheckHandshake accepts it only if no other process responds at the
// address that gossip has for the node. Otherwise a copy of the data directory, started on another
// host, could act as the node. An unknown process that has dialed another kind of stream is greeted later.
// If the peer of a Raft stream has a newer record of this node's disk, CheckHandshake stops this node.
func (r *Records) CheckHandshake(ctx context.Context, m peer.Handshake) (peer.Refusal, string) {
	const accepted peer.Refusal = 0
	statement := diskhistory.Statement{
		Server: consensus.ServerID(m.Peer.Node, m.Peer.Disk), Boot: m.Peer.Boot,
		Nonce: m.Peer.Nonce, Term: m.Peer.Term, Last: m.Peer.Last, Applied: m.Peer.Applied,
	}
	isRaft := m.Kind == peer.Raft
	if isRaft {
		if err := r.checkOwnDisk(m); err != nil {
			r.stopStaleDisk(fmt.Errorf("node %q reports: %w", m.Peer.Node, err))
			return peer.RefusedStaleListenerDisk, err.Error()
		}
	}
	if err := r.table.Judge(statement); err != nil {
		if isRaft {
			return peer.RefusedStaleDialerDisk, err.Error()
		}
		return accepted, "" // the statement is not recorded
	}
	isKnownProcess := r.table.Knows(statement)
	if !isKnownProcess {
		r.onUnknownProcess()
	}
	if peerHasDialed := !m.Dialed; peerHasDialed && !isKnownProcess {
		if !isRaft {
			r.greetLater(statement.Server)
			return accepted, ""
		}
		if addr := r.otherProcess(ctx, m.Peer); addr != "" {
			return peer.RefusedDuplicateNode, fmt.Sprintf("node %q is the process at %s", m.Peer.Node, addr)
		}
	}
	if err := r.learn(statement); err != nil && isRaft { // another stream has recorded a newer statement
		return peer.RefusedStaleDialerDisk, err.Error()
	}
	return accepted, ""
}

// checkOwnDisk returns an error if the peer of a handshake has a newer record of this node's disk than the disk
// itself. In that case, this disk was rolled back to an older image.
func (r *Records) checkOwnDisk(m peer.Handshake) error {
	known := m.RecordKnownToPeer
	if known.Nonce == 0 {
		return nil // the peer has no record
	}
	recorded := disk.DiskRecord{Server: r.options.Server, Boot: m.BootKnownToPeer, Nonce: known.Nonce, Term: known.Term, Applied: known.Applied}
	return diskhistory.Check(recorded, r.ownStatement())
}

// learn records a statement about a disk, or returns an error if the record contradicts it. If the
// disk has a new process, it closes the streams to previous processes and informs the proxy.
// Statements of one process may arrive out of order, so the follow-up actions use the record after
// the update, not the statement.
func (r *Records) learn(s diskhistory.Statement) error {
	if s.Nonce == 0 {
		return nil // the peer has not started Raft
	}
	r.learnMu.Lock()
	defer r.learnMu.Unlock()
	previous := r.table.Of(s.Server)
	if err := r.table.Learn(s); err != nil {
		return err
	}
	current := r.table.Of(s.Server)
	isNewProcess := previous.Nonce != current.Nonce
	if isNewProcess {
		r.options.CloseOtherStreams(s.Server, current.Nonce)
	}
	if isNewProcess || previous.Boot != current.Boot {
		r.options.SetPeerProcess(consensus.NodeOf(s.Server), current.Boot, current.Nonce)
	}
	return nil
}

// onUnknownProcess makes this node send Raft heartbeats now if it leads, so that a process that has
// just started learns its leader immediately.
func (r *Records) onUnknownProcess() {
	if raft := r.options.Raft(); raft != nil {
		raft.AnnounceLeader()
	}
}

// greetLater schedules a greeting to a server with an unknown process, if it is a voter.
func (r *Records) greetLater(server string) {
	if r.options.Raft() != nil {
		r.unknownServers.add(server, r.options.View.OtherVoters())
	}
}

// otherProcess probes the address that gossip has for the node of peer far. It returns the address if
// another process of the node responds there, otherwise "".
func (r *Records) otherProcess(ctx context.Context, far peer.Identity) string {
	if far.Nonce == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, processProbeTimeout)
	defer cancel()
	return r.options.ProbeDuplicate(ctx, far.Node, far.Nonce)
}

// CheckHeartbeat returns an error if a heartbeat comes from a disk that was rolled back to an older image. A
// heartbeat does not contain the last index of the log, so CheckHeartbeat does not compare that.
func (r *Records) CheckHeartbeat(hb ack.Heartbeat) error {
	return r.table.Judge(heartbeatStatement(hb))
}

// LearnHeartbeat records the statement in a heartbeat that the leader has accepted.
func (r *Records) LearnHeartbeat(hb ack.Heartbeat) {
	if consensus.NodeOf(hb.Server) != string(hb.Node) {
		return
	}
	_ = r.learn(heartbeatStatement(hb)) // an error means an older image, and the leader has already checked that
}

// heartbeatStatement returns the statement in a heartbeat. Last is the largest index, because a
// heartbeat does not contain it.
func heartbeatStatement(hb ack.Heartbeat) diskhistory.Statement {
	return diskhistory.Statement{
		Server: hb.Server, Boot: hb.Boot, Nonce: hb.Nonce, Term: hb.Term, Applied: uint64(hb.Applied), Last: ^uint64(0),
	}
}

// Table returns the records.
func (r *Records) Table() *diskhistory.Table { return r.table }

// DialRaft returns a function that opens Raft streams through port. It waits until opened is closed, because
// this node can create its own statement only after Raft has started. A peer that refuses the statement has
// a newer record of this disk than the disk itself. In that case, the function stops this node.
func (r *Records) DialRaft(port *peer.Port, opened <-chan struct{}) consensus.DialFunc {
	dial := consensus.PeerDialer(port)
	return func(ctx context.Context, node, id string) (c net.Conn, err error) {
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c, err = dial(ctx, node, id)
		if re, ok := errors.AsType[*peer.RefusedError](err); ok && re.Code == peer.RefusedStaleDialerDisk {
			r.stopStaleDisk(fmt.Errorf("node %q reports: %s", node, re.Reason))
		}
		return c, err
	}
}

// StaleDiskError stops a node whose data directory is an older image or a copy.
type StaleDiskError struct{ Reason error }

// Error contains the reason and the remedy.
func (e *StaleDiskError) Error() string {
	return "node: the data directory must not be used any more: " + e.Reason.Error() + ": " + disk.RemedyStale
}

// RollbackError converts the leader's refusal of a heartbeat, ack.RefusedRollback, to the error that stops the
// node.
func RollbackError(answer ack.Answer) error {
	// RefusedRollback has three reasons: a higher boot, another process with the same boot, or a lower term.
	evidence := fmt.Sprintf("its boot %d was in a later Raft term than this disk contains", answer.KnownBoot)
	switch {
	case answer.KnownBoot > answer.Boot:
		evidence = fmt.Sprintf("this is its boot %d, and its boot %d is known", answer.Boot, answer.KnownBoot)
	case answer.KnownBoot == answer.Boot:
		evidence = fmt.Sprintf("another process was its boot %d", answer.Boot)
	}
	return &StaleDiskError{fmt.Errorf("the leader has evidence that this disk is an older image of itself or a copy: %s", evidence)}
}

// stopStaleDisk stops the node with a StaleDiskError.
func (r *Records) stopStaleDisk(reason error) { r.options.Fail(&StaleDiskError{reason}) }

// Run writes the records when they have changed, until ctx ends, and then once more.
//
// A failed write is harmless: heartbeats and votes do not wait for it, and a node that is killed loses the last
// second of changes anyway. After the next start, this node would lack the records that were not written, but the
// other voters have the same ones. A disk that accepts no writes at all stops the node through the writes of Raft.
func (r *Records) Run(ctx context.Context) {
	lastErr := r.readErr // the error of the read at the start, or of the last write; a write is retried
	var retry <-chan time.Time
	if lastErr != nil {
		retry = time.After(writeRetryPause)
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-r.table.Changed():
			if lastErr != nil {
				continue // the retry writes this change, too
			}
		case <-retry:
		}
		if lastErr = r.writeLogged(ctx, lastErr); lastErr != nil {
			retry = time.After(writeRetryPause)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(writeEvery):
		}
	}
	unwritten := lastErr != nil
	select {
	case <-r.table.Changed():
		unwritten = true
	default:
	}
	if unwritten {
		_ = r.writeLogged(ctx, lastErr) // writeLogged has logged the error
	}
}

// writeLogged writes the records and returns the error. After ctx ends it waits up to stallTimeout for
// a stalled disk. lastErr is the result of the previous write: only the first of several failures in a
// row is logged.
func (r *Records) writeLogged(ctx context.Context, lastErr error) error {
	written := make(chan error, 1)
	go func() { written <- r.write() }()
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		select {
		case err = <-written:
		case <-time.After(stallTimeout):
			return lastErr
		}
	}
	switch {
	case err != nil && lastErr == nil:
		r.options.Log.Warn().Err(err).Str("lost", "what this node would know of the disks of others after its next start; the other voters know the same").
			Msg("disk records not written, retrying")
	case err == nil && lastErr != nil:
		r.options.Log.Info().Msg("disk records written again")
	}
	return err
}
