package consensus_test

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// These tests run the bare library with the faults that this package works around. If one fails, the library was fixed, and the named
// workaround can be removed. Two workarounds have no canary: the lost first response of a new voter (pushing) is a race that does not occur
// in virtual time, and a store that fails ends the process (package disk).

// bare is a server of the library without the workarounds.
type bare struct {
	*raft.Raft
	logs    *raft.InmemStore
	trans   *raft.InmemTransport
	applied chan uint64   // cap 1: the newest index
	held    chan struct{} // nothing is applied until it is closed; nil means no delay
}

func (b *bare) Apply(l *raft.Log) any {
	if b.held != nil {
		<-b.held
	}
	select {
	case <-b.applied:
	default:
	}
	b.applied <- l.Index
	return nil
}

func (b *bare) Snapshot() (raft.FSMSnapshot, error) { return b, nil }
func (b *bare) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (b *bare) Release()                            {}
func (b *bare) Restore(r io.ReadCloser) error       { return r.Close() }

// bares starts servers that know each other. Upper-case letters are nonvoters. Their logs contain the configuration, and then entries of
// the given terms.
func bares(t *testing.T, ids string, terms ...uint64) map[string]*bare {
	t.Helper()
	var c raft.Configuration
	names := strings.Split(ids, "")
	for _, id := range names {
		s := raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id), Suffrage: raft.Voter}
		if id == strings.ToUpper(id) {
			s.Suffrage = raft.Nonvoter
		}
		c.Servers = append(c.Servers, s)
	}
	all := map[string]*bare{}
	for _, id := range names {
		_, trans := raft.NewInmemTransport(raft.ServerAddress(id))
		b := &bare{logs: raft.NewInmemStore(), trans: trans, applied: make(chan uint64, 1)}
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger = raft.ServerID(id), hclog.NewNullLogger()
		stable, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		err := raft.BootstrapCluster(conf, b.logs, stable, snaps, trans, c)
		for i, term := range terms {
			if err == nil {
				err = b.logs.StoreLog(&raft.Log{Index: uint64(i) + 2, Term: term})
			}
		}
		if err == nil && len(terms) > 0 {
			err = stable.SetUint64([]byte("CurrentTerm"), slices.Max(terms))
		}
		if err == nil {
			b.Raft, err = raft.NewRaft(conf, b, b.logs, stable, snaps, trans)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[id] = b
	}
	for _, a := range all {
		for id, b := range all {
			a.trans.Connect(raft.ServerAddress(id), b.trans)
		}
	}
	return all
}

// cage is a test with its servers.
type cage struct {
	*testing.T
	all map[string]*bare
}

// canary runs f with bare servers in virtual time.
func canary(t *testing.T, ids string, terms []uint64, f func(t cage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all := bares(t, ids, terms...)
		defer time.Sleep(time.Minute)
		defer func() {
			for _, b := range all {
				_ = b.Shutdown().Error()
			}
		}()
		f(cage{t, all})
	})
}

// to returns a transport that reaches only b.
func to(b *bare) *raft.InmemTransport {
	_, from := raft.NewInmemTransport("from")
	from.Connect(b.trans.LocalAddr(), b.trans)
	return from
}

func headed(id string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
}

func TestCanaryVoteForAServerJustPromoted(t *testing.T) {
	canary(t, "abC", []uint64{2}, func(t cage) {
		b := t.all["b"]
		b.trans.DisconnectAll()
		t.all["a"].trans.DisconnectAll()
		req := &raft.RequestVoteRequest{RPCHeader: headed("C"), Term: 9, LastLogIndex: 99, LastLogTerm: 8}
		var resp raft.RequestVoteResponse
		if err := to(b).RequestVote("b", "b", req, &resp); err != nil {
			t.Fatal(err)
		}
		if resp.Granted {
			t.Error("a vote goes by term and log alone: ballot.go can go")
		}
		req.ID, req.Term = []byte("a"), 10
		if err := to(b).RequestVote("b", "b", req, &resp); err != nil || !resp.Granted {
			t.Errorf("the same for a voter: %v, %v: the canary shows nothing", resp.Granted, err)
		}
	})
}

func TestCanarySnapshotWithContradictingLog(t *testing.T) {
	canary(t, "ab", []uint64{2, 2, 2, 2}, func(t cage) {
		b := t.all["b"]
		t.all["a"].trans.DisconnectAll()
		b.trans.DisconnectAll()
		install := &raft.InstallSnapshotRequest{
			RPCHeader: headed("a"), SnapshotVersion: 1, Term: 9, LastLogIndex: 3, LastLogTerm: 8,
			Configuration: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}, {ID: "b", Address: "b"}}}), ConfigurationIndex: 1,
		}
		var installed raft.InstallSnapshotResponse
		if err := to(b).InstallSnapshot("b", "b", install, &installed, strings.NewReader("")); err != nil || !installed.Success {
			t.Fatalf("snapshot not taken: %v", err)
		}
		next := &raft.AppendEntriesRequest{
			RPCHeader: headed("a"), Term: 9, PrevLogEntry: 3, PrevLogTerm: 8,
			Entries: []*raft.Log{{Index: 4, Term: 9}}, LeaderCommitIndex: 3,
		}
		var appended raft.AppendEntriesResponse
		if err := to(b).AppendEntries("b", "b", next, &appended); err != nil {
			t.Fatal(err)
		}
		if appended.Success {
			t.Error("a snapshot ends a log that contradicts it: install.go can go")
		}
	})
}

func TestCanaryTransferToTheDead(t *testing.T) {
	canary(t, "abc", nil, func(t cage) {
		time.Sleep(10 * time.Second)
		var leader string
		for id, b := range t.all {
			if b.State() == raft.Leader {
				leader = id
			}
		}
		if leader == "" {
			t.Fatal("no leader")
		}
		if err := t.all[leader].LeadershipTransfer().Error(); err != nil {
			t.Fatalf("%v: the canary shows nothing", err)
		}
		time.Sleep(10 * time.Second)
		for id, b := range t.all {
			if b.State() == raft.Leader {
				leader = id
			}
		}
		// The library picks the first of the servers whose logs are longest.
		for _, id := range []string{"a", "b", "c"} {
			if id != leader {
				_ = t.all[id].Shutdown().Error()
				t.all[leader].trans.Disconnect(raft.ServerAddress(id))
				break
			}
		}
		if err := t.all[leader].LeadershipTransfer().Error(); err == nil {
			t.Error("leadership goes to a voter that lives: Transfer can be the library's")
		}
	})
}

func TestCanaryPauseForAServerThatIsBack(t *testing.T) {
	canary(t, "abc", nil, func(t cage) {
		time.Sleep(10 * time.Second)
		var leader, other string
		for id, b := range t.all {
			if b.State() == raft.Leader {
				leader = id
			} else {
				other = id
			}
		}
		l, o := t.all[leader], t.all[other]
		l.trans.Disconnect(o.trans.LocalAddr())
		for range 30 {
			_ = l.Raft.Apply([]byte("x"), time.Second).Error()
			time.Sleep(time.Second)
		}
		l.trans.Connect(o.trans.LocalAddr(), o.trans)
		back := time.Now()
		for o.AppliedIndex() < l.CommitIndex() {
			if time.Since(back) > time.Minute {
				t.Fatal("never caught up")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(back); d < time.Second {
			t.Errorf("a server that is back gets entries after %v: patiently can go", d)
		}
	})
}

// lossy is a stream layer whose connections are closed by the remote end after one message.
type lossy struct {
	dials int
	done  chan struct{}
	raft.StreamLayer
}

func (l *lossy) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	l.dials++
	ours, theirs := net.Pipe()
	go func() {
		answerOnce(theirs)
		_ = theirs.Close()
	}()
	return ours, nil
}

func (l *lossy) Accept() (net.Conn, error) {
	<-l.done
	return nil, net.ErrClosed
}

func (l *lossy) Close() error {
	close(l.done)
	return nil
}

func (l *lossy) Addr() net.Addr { return &net.TCPAddr{} }

// served passes one connection to a transport of the library.
type served struct {
	conns chan net.Conn
	done  chan struct{}
	raft.StreamLayer
}

func (s *served) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *served) Close() error {
	close(s.done)
	return nil
}

func (s *served) Addr() net.Addr { return &net.TCPAddr{} }

// answerOnce grants the vote that is requested on c.
func answerOnce(c net.Conn) {
	s := &served{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: s, Timeout: time.Second, Logger: hclog.NewNullLogger()})
	s.conns <- c
	rpc := <-trans.Consumer()
	rpc.Respond(&raft.RequestVoteResponse{RPCHeader: headed("voter"), Granted: true}, nil)
	time.Sleep(time.Second) // until the response has been sent
	_ = trans.Close()
}

func TestCanaryMessageLostWithAnOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lossy{done: make(chan struct{})}
		trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: l, MaxPool: 1, Timeout: time.Second, Logger: hclog.NewNullLogger()})
		ask := func() error {
			var resp raft.RequestVoteResponse
			return trans.RequestVote("v", "v", &raft.RequestVoteRequest{RPCHeader: headed("a"), Term: 1}, &resp)
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // the voter is started again
		if err := ask(); err == nil {
			t.Errorf("a vote does not get lost with an old connection (%d dials): transport.again can go", l.dials)
		}
		_ = trans.Close()
		time.Sleep(time.Minute)
	})
}
