package node

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/internal/simnet"
	"shardway/node/cluster"
	"shardway/node/crashdetect"
	"shardway/node/heartbeat"
	"shardway/node/leaderloop"
	"shardway/peer"
)

// departure is node b, whose heartbeats reach the leader, node a, over one stream. Connections to b are refused.
type departure struct {
	t        *testing.T
	inbox    *leaderInbox
	sender   *peer.Port
	stream   *peer.Conn
	number   uint64
	mu       sync.Mutex
	evidence []crashdetect.Process
}

// runDeparture calls test in a bubble.
func runDeparture(t *testing.T, test func(*departure)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		sim := simnet.New(simnet.Config{Seed: 1})
		hosts := map[string]*simnet.Host{"a": sim.Host("a"), "b": sim.Host("b")}
		d := &departure{t: t}
		portOf := func(node string, dial func(context.Context, string) (net.Conn, error)) *peer.Port {
			return peer.New(peer.Options{
				Node: node, Disk: "d", Boot: 1, Cluster: func() string { return "c" }, Log: zerolog.Nop(), Dial: dial,
				IsKnownNode: func(string) bool { return true }, Lookup: func(node string) (string, bool) { return hosts[node].Addr(1), true },
			})
		}
		port := portOf("a", func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
		d.sender = portOf("b", hosts["b"].Dial)

		leadership, messages, end := leaderloop.NewWithoutLoop(leaderloop.Options{View: cluster.NewView("a", "a/d", ack.DefaultTiming(), ack.NewState)}, 1, 0)
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-messages:
				}
			}
		}()
		detector := crashdetect.NewDetector(port, clock.Virtual(), func(_ string, ended crashdetect.Process, _ time.Duration) bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.evidence = append(d.evidence, ended)
			return false
		})
		detector.Start(ctx)
		d.inbox = &leaderInbox{leadership: new(atomic.Pointer[leaderloop.Leadership]), crashes: detector, timing: ack.DefaultTiming, log: zerolog.Nop()}
		d.inbox.leadership.Store(leadership)
		d.inbox.initHeartbeats()
		d.inbox.heartbeats.Deliver = func(context.Context, heartbeat.Received) {}
		port.Handle(peer.Heartbeat, d.inbox.heartbeats.ServeStream)

		listener, err := hosts["a"].Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- port.Serve(ctx, listener) }()
		d.stream = d.open()
		d.send(d.stream)
		test(d)
		stop()
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		detector.Wait()
		sim.Close()
	})
}

// recorded returns the evidence so far.
func (d *departure) recorded() []crashdetect.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.evidence)
}

// open opens another stream of b.
func (d *departure) open() *peer.Conn {
	d.t.Helper()
	stream, err := d.sender.Dial(d.t.Context(), "a", peer.Heartbeat)
	if err != nil {
		d.t.Fatal(err)
	}
	return stream
}

// send sends one heartbeat.
func (d *departure) send(stream *peer.Conn) {
	d.t.Helper()
	d.number++
	encoded, err := ack.Heartbeat{Node: "b", Server: "b/d", Boot: 1, Nonce: 9, Number: d.number, Weight: 1, FormatVersion: ack.MaxFormatVersion}.MarshalBinary()
	if err == nil {
		err = peer.WriteFrame(stream, encoded)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// A firewall that rejects new connections must not make the leader record a crash of a process whose heartbeats still
// arrive, also if Serf has lost the node. Otherwise a takeover could begin while the process has a lease.
func TestDepartureOfANodeWithHeartbeatsIsNoEvidence(t *testing.T) {
	for name, interval := range map[string]time.Duration{
		"usual interval": ack.DefaultPace().Heartbeat, "short gaps": ack.DefaultTiming().Lease,
	} {
		t.Run(name, func(t *testing.T) {
			runDeparture(t, func(d *departure) {
				for range 20 {
					time.Sleep(interval / 2) // the heartbeat is delivered, so the stream is silent for half an interval
					d.inbox.checkAfterDeparture("b")
					time.Sleep(interval / 2)
					d.send(d.stream) // fails if the leader has closed the stream
				}
				if len(d.recorded()) > 0 {
					t.Errorf("evidence %+v about a process whose heartbeats arrive", d.recorded())
				}
			})
		})
	}
}

// A node that reconnects is alive, even if its first stream is silent.
func TestDepartureOfANodeThatReconnectsIsNoEvidence(t *testing.T) {
	runDeparture(t, func(d *departure) {
		d.inbox.checkAfterDeparture("b")
		time.Sleep(ack.DefaultTiming().Lease / 2)
		d.send(d.open())
		time.Sleep(ack.DefaultTiming().Lease)
		if len(d.recorded()) > 0 {
			t.Errorf("evidence %+v about a process that has opened another stream", d.recorded())
		}
	})
}

// A host that died cannot close its connections. When the machine is up again, it refuses connections.
func TestDepartureOfASilentNodeIsEvidence(t *testing.T) {
	runDeparture(t, func(d *departure) {
		time.Sleep(5 * time.Second) // until Serf detects the failure
		began := time.Now()
		d.inbox.checkAfterDeparture("b")
		for len(d.recorded()) == 0 && time.Since(began) < 10*time.Second {
			time.Sleep(time.Millisecond)
		}
		took := time.Since(began)
		if want := []crashdetect.Process{{Boot: 1, Nonce: 9}}; !slices.Equal(d.recorded(), want) {
			t.Fatalf("evidence %+v, want %+v", d.recorded(), want)
		}
		if expiry := ack.DefaultTiming().LeaseExpiry(); took < expiry || took > expiry+100*time.Millisecond {
			t.Errorf("the evidence came after %v, want it when the lease has ended, after %v", took, expiry)
		}
	})
}

// A node that no longer leads closes no stream: a leader sends no heartbeats to other nodes.
func TestDepartureAfterTheLeadershipIsNoEvidence(t *testing.T) {
	runDeparture(t, func(d *departure) {
		d.inbox.checkAfterDeparture("b")
		d.inbox.leadership.Store(nil)
		time.Sleep(5 * time.Second)
		d.send(d.stream)
		if len(d.recorded()) > 0 {
			t.Errorf("evidence %+v by a node that does not lead", d.recorded())
		}
	})
}
