//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// registers is how many keys of a round are registers: few, so that each has many
// operations. A third of them are in memory, a third in the store, and a third where
// nothing looks at epochs.
const registers = 16

// mode is how the n-th register is kept.
func mode(n int) string { return []string{"memory", "store", unfenced}[n%registers%3] }

// unfenced are the registers that nothing but the cluster protects.
const unfenced = "unfenced"

// long is how long the longest of the usual requests take.
const long = "700ms"

// traffic is all load on a cluster: clients that live as long as it does, and in
// each round a generator for each.
type traffic struct {
	w       *world
	clients []*load.Client
	rates   []int
	noRetry []string // targets that may die
	working []*load.Generator
	ctx     context.Context //nolint:containedctx // of the round's requests
	abort   context.CancelFunc

	// asked counts the requests of ask in the round.
	asked   int
	asking  sync.WaitGroup
	mu      sync.Mutex
	answers []history.Response // to them
}

// newTraffic makes two clients that count and one that has registers.
func newTraffic(w *world) *traffic {
	t := &traffic{w: w, rates: []int{w.o.Rate / 4, w.o.Rate / 4, w.o.Rate / 2}}
	for range t.rates {
		t.clients = append(t.clients, load.NewClient(nil, nil))
	}
	t.aim(w.members)
	return t
}

// aim has the next requests go to these nodes, in turn.
func (t *traffic) aim(at []*cluster.Node) {
	addrs := cluster.Addrs(at)
	for _, c := range t.clients {
		c.SetTargets(slices.Clone(addrs))
		addrs = append(addrs[1:], addrs[0]) // each begins elsewhere
	}
	if t.w.following != nil { // else they begin with the same
		t.w.following.aim(at)
	}
}

// begin begins the load of a round.
func (t *traffic) begin() {
	t.ctx, t.abort = context.WithCancel(context.Background())
	t.asked, t.answers = 0, nil
	plain, regs := t.w.keys("n"), t.w.keys("r")[:registers]
	for i, client := range t.clients {
		o := load.Options{
			Client: client, Rate: t.rates[i], Keys: plain,
			Prefix: fmt.Sprintf("r%d.%d", t.w.number, i), Timeout: t.w.o.QueueWait + t.w.o.Patience,
		}
		// The longest take turns on the keys that are asked for most: what runs there
		// for too long has somebody beside it.
		o.Make = func(n int, r *load.Request) {
			if mixed(n, r); r.Header["App-Delay"] == long {
				r.Key = regs[(n/40*2+n%2+i*registers/2)%registers]
			}
		}
		if i == len(t.clients)-1 {
			o.Keys, o.Make = regs, operate
		}
		t.working = append(t.working, load.Start(t.ctx, o))
	}
}

// late has some registers of a node written so slowly that its app has them when
// the node's shards are elsewhere: what it writes then, the store has to refuse, if
// it is fenced.
func (t *traffic) late(m cluster.Map, n *cluster.Node) {
	for i, key := range t.w.keys("r")[:registers] {
		if m.OwnerOf(key) != n.ID {
			continue
		}
		t.asked++
		r := load.Request{
			ID: fmt.Sprintf("r%d.late%d", t.w.number, t.asked), Key: key, Method: http.MethodPost, Timeout: t.w.o.QueueWait + t.w.o.Patience,
			Header: map[string]string{"App-Register": mode(i), "App-Late": "3500ms"},
		}
		r.Body = []byte(r.ID)
		client, ctx := t.clients[i%len(t.clients)], t.ctx
		t.asking.Go(func() {
			a := client.Do(ctx, r)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.answers = append(t.answers, a)
		})
	}
}

// mixed has requests that take their time, and big ones, each kind as GET and as
// POST but the last.
func mixed(n int, r *load.Request) {
	switch n % 40 {
	case 4, 5, 24, 25:
		r.Header = map[string]string{"App-Delay": "50ms"}
	case 8, 9:
		r.Header = map[string]string{"App-Size": "50000"}
	case 12, 13, 32, 33:
		r.Header = map[string]string{"App-Size": "3000", "App-Chunks": "6", "App-Delay": "20ms"}
	case 16, 17:
		r.Header = map[string]string{"App-Delay": long}
	case 29:
		r.Body = make([]byte, 100_000)
	}
}

// operate makes an operation on a register: POST writes the request's id, which is
// unique.
func operate(n int, r *load.Request) {
	r.Header = map[string]string{"App-Register": mode(n / 2)}
}

// flow waits for what begins in a time.
func (t *traffic) flow(w *world, d time.Duration) {
	until := t.begun() + int(d.Seconds()*float64(w.o.Rate))
	cluster.Await(w, "load flows", func() error {
		if n := t.begun(); n < until {
			return fmt.Errorf("%d of %d requests begun", n, until)
		}
		return nil
	})
}

func (t *traffic) begun() int {
	n := 0
	for _, g := range t.working {
		n += g.Begun()
	}
	return n
}

// end stops the load and returns the answers, when all are there.
func (t *traffic) end() []history.Response {
	var all []history.Response
	for _, g := range t.working {
		all = append(all, g.Stop()...)
	}
	t.working = nil
	t.asking.Wait()
	t.abort()
	return append(all, t.answers...)
}

// unasked is how many bytes came on idle connections.
func (t *traffic) unasked() int {
	n := 0
	for _, c := range t.clients {
		n += c.Unasked()
	}
	return n
}

// forbidRetry has no client send what may have run at a node again.
func (t *traffic) forbidRetry(n *cluster.Node) {
	t.noRetry = append(t.noRetry, n.Addr)
	t.tell()
}

func (t *traffic) allowRetry(n *cluster.Node) {
	t.noRetry = slices.DeleteFunc(t.noRetry, func(addr string) bool { return addr == n.Addr })
	t.tell()
}

func (t *traffic) tell() {
	for _, c := range t.clients {
		c.SetNoRetry(slices.Clone(t.noRetry)...)
	}
}

func (t *traffic) close() {
	if t.abort != nil {
		t.abort()
	}
	for _, g := range t.working {
		g.Stop()
	}
	t.asking.Wait()
	for _, c := range t.clients {
		c.Close()
	}
}
