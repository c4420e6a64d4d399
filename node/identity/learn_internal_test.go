package identity

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"shardway/internal/simnet"
	"shardway/node/consensus"
	"shardway/node/diskhistory"
	"shardway/peer"
	"shardway/proxy"
	"shardway/queue"
)

// process is a peer.DiskRecords that has the identity of one process.
type process struct{ nonce uint64 }

func (p process) LocalRecord() peer.Record { return peer.Record{Nonce: p.nonce} }

func (process) RecordOf(string, string) (uint64, peer.Record) { return 0, peer.Record{} }

func (process) CheckHandshake(context.Context, peer.Handshake) (peer.Refusal, string) { return 0, "" }

// The streams of a process end when another process of its disk is learned, whichever node reports it, and for no other reason.
func TestStreamsEndAsTheNextProcessIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simnet.New(simnet.Config{})
		defer sim.Close()
		here, there := sim.Host("b"), sim.Host("a")
		at := func(h *simnet.Host, node string, nonce uint64) *peer.Port {
			return peer.New(peer.Options{
				Node: node, Disk: "x", Boot: 3, Cluster: func() string { return "c" }, Dial: h.Dial, DiskRecords: process{nonce},
				Lookup: func(string) (string, bool) { return here.Addr(1), true },
			})
		}
		port := at(here, "b", 9)
		stream := consensus.NewStream("b/x", consensus.PeerDialer(port))
		port.Handle(peer.Raft, stream.Handle)
		ln, err := here.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = port.Serve(ctx, ln) }() // ends with ctx
		p := proxy.New(proxy.Options{Queue: queue.New(queue.Options{})})
		r := &Records{options: RecordsOptions{CloseOtherStreams: stream.CloseOtherProcesses, SetPeerProcess: p.SetPeerProcess}, table: diskhistory.New(nil)}
		c, err := consensus.PeerDialer(at(there, "a", 1))(ctx, "b", "x")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func(c net.Conn) {
			defer close(ended)
			_, _ = io.Copy(io.Discard, c) // the test waits for the end of the stream
		}(c)
		for _, step := range []struct {
			what        string
			server      string
			boot, nonce uint64
			refused     bool
			ends        bool
		}{
			{what: "nobody has spoken", server: "a/x", boot: 9},
			{what: "the process", server: "a/x", boot: 3, nonce: 1},
			{what: "its boot rises", server: "a/x", boot: 4, nonce: 1},
			{what: "another disk of the node", server: "a/y", boot: 1, nonce: 5},
			{what: "an older image", server: "a/x", boot: 2, nonce: 2, refused: true},
			{what: "the next process", server: "a/x", boot: 5, nonce: 2, ends: true},
		} {
			if err := r.learn(diskhistory.Statement{Server: step.server, Boot: step.boot, Nonce: step.nonce, Last: 9}); (err != nil) != step.refused {
				t.Errorf("%s: %v", step.what, err)
			}
			synctest.Wait()
			over := false
			select {
			case <-ended:
				over = true
			default:
			}
			if over != step.ends {
				t.Errorf("%s: the stream has ended: %v", step.what, over)
			}
		}
		_ = stream.Close()
		cancel()
		<-ended
	})
}
