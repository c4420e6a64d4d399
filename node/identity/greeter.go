package identity

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"shardway/internal/chanutil"
	"shardway/internal/clock"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/diskhistory"
	"shardway/peer"
)

const (
	// greetEvery is the interval at which a voter greets the next voter that needs a greeting.
	greetEvery = time.Second
	// greetAllWithin is the longest time between two greetings of the same voter.
	greetAllWithin = 10 * time.Second
	// greetTimeout bounds one greeting.
	greetTimeout = time.Second
	// greetRetryPause is the pause between two attempts of the first greeting.
	greetRetryPause = 25 * time.Millisecond
)

// greeting records the last greeting of a voter: a connection that is opened only for its handshake, in
// which both nodes state the condition of their disks. sent is the statement that this node has sent. It
// is zero if the voter was not reachable.
type greeting struct {
	sent diskhistory.Statement
	at   time.Time
}

// unknownServers are the servers that have greeted this node with an unknown process. Such a
// greeting is not trusted, because every holder of the secret can send it.
type unknownServers struct {
	added chan struct{} // cap 1: a server was added
	mu    sync.Mutex
	all   map[string]bool
}

// newUnknownServers returns an empty set.
func newUnknownServers() *unknownServers {
	return &unknownServers{added: make(chan struct{}, 1), all: map[string]bool{}}
}

// add adds server if it is one of voters.
func (s *unknownServers) add(server string, voters []string) {
	if !slices.Contains(voters, server) {
		return
	}
	s.mu.Lock()
	s.all[server] = true
	s.mu.Unlock()
	chanutil.Notify(s.added)
}

// has reports whether server is in the set.
func (s *unknownServers) has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[server]
}

// remove removes server from the set.
func (s *unknownServers) remove(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, server)
}

// Greeter greets the other voters: it opens connections whose handshakes exchange the statements of both
// sides.
type Greeter struct {
	Records   *Records
	Port      *peer.Port
	View      *cluster.View
	Scheduler *clock.Scheduler
	// Background contains the goroutines that end when Raft stops.
	Background *sync.WaitGroup
}

// Run greets the other voters until ctx ends, while this node is a voter: all at the start, so
// that the leader sends Raft heartbeats to this node, and then one after the other. In a greeting,
// both nodes exchange statements about their disks. The nodes use the resulting records when there is no leader.
//
// Each greeting opens a connection, which wakes both nodes. So a voter that has received the current
// statement gets no other greeting for greetAllWithin. A voter that has restarted greets this node,
// but that greeting is not trusted: this node greets it back at the address that gossip has for it.
func (g *Greeter) Run(ctx context.Context) {
	for _, server := range g.View.OtherVoters() {
		g.Background.Go(func() { g.greetFirst(ctx, server) })
	}
	t := g.Scheduler.NewTicker(greetEvery)
	defer t.Stop()
	unknown := g.Records.unknownServers
	last := map[string]greeting{}
	for round := 0; ; round++ {
		forUnknown := false
		select {
		case <-ctx.Done():
			return
		case <-unknown.added:
			forUnknown = true
		case <-t.C:
		}
		own, voters := g.Records.ownStatement(), g.View.OtherVoters()
		for i := range voters {
			server := voters[(round+i)%len(voters)]
			previous, since := last[server], time.Since(last[server].at)
			if !unknown.has(server) && (forUnknown || previous.sent == own && since < greetAllWithin) || forUnknown && since < greetEvery {
				continue
			}
			unknown.remove(server) // before the greeting: during it, another unknown process may be added
			now := greeting{at: time.Now()}
			if g.greet(ctx, server) == nil { // after an error, the voter is greeted again
				now.sent = own
			}
			if last[server] = now; !forUnknown {
				break
			}
		}
	}
}

// greetFirst greets a voter, and retries for greetEvery while gossip does not have its address.
func (g *Greeter) greetFirst(ctx context.Context, server string) {
	for range greetEvery / greetRetryPause {
		if !errors.Is(g.greet(ctx, server), peer.ErrUnknownNode) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(greetRetryPause):
		}
	}
}

// greet opens and closes a connection to the node of server: the handshake exchanges the statements.
func (g *Greeter) greet(ctx context.Context, server string) error {
	greeting, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	c, err := g.Port.Dial(greeting, consensus.NodeOf(server), peer.Control)
	if err != nil {
		return err
	}
	_ = c.Close() // the stream is not used
	return nil
}
