package embed_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/embed"
)

// A cluster of one, whose app is a function.
func ExampleNew() {
	data, err := os.MkdirTemp("", "shardway")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(data) }()
	n, err := embed.New(embed.Config{
		Data: data, Key: []string{"header:X-User"}, Log: io.Discard,
		Listen: "127.0.0.1:26801", Admin: "127.0.0.1:26802", Peer: "127.0.0.1:26803", Gossip: "127.0.0.1:26804",
		Handler: func(ctx *fasthttp.RequestCtx) {
			_, _ = fmt.Fprintf(ctx, "hello, %s", ctx.Request.Header.Peek("Shardway-Key"))
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	for n.Ready() != nil {
		time.Sleep(10 * time.Millisecond)
	}

	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addr().String(), http.NoBody)
	r.Header.Set("X-User", "alice")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(os.Stdout, res.Body)
	_ = res.Body.Close()
	fmt.Println("\nowner:", n.Owner("alice") == n.ID(), "shards:", len(n.Owned()))

	stop() // as SIGTERM does: the node hands over what it owns, and leaves
	fmt.Println("ended:", <-ended)
	// Output:
	// hello, alice
	// owner: true shards: 1024
	// ended: <nil>
}

// An http.Handler is an app too.
func ExampleHTTP() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Second):
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done(): // the client has left, or the shard is to move
		}
	})
	_ = embed.Config{Handler: embed.HTTP(mux)}
}

// A handler that writes outside of its process sends the epoch along: who keeps the
// data refuses one that is lower than it has seen for the shard.
func ExampleNode_Epoch() {
	store := func(key, value string, epoch uint64) error { return nil }
	handler := func(ctx *fasthttp.RequestCtx) {
		epoch, err := strconv.ParseUint(string(ctx.Request.Header.Peek("Shardway-Epoch")), 10, 64)
		if err == nil {
			err = store(string(ctx.Request.Header.Peek("Shardway-Key")), string(ctx.PostBody()), epoch)
		}
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusConflict)
		}
	}
	_ = embed.Config{Handler: handler}
}

// State that is kept by shard is forgotten when the shard is lost.
func ExampleNode_Watch() {
	var n *embed.Node
	forget := func(shard int) {}
	watch := func(ctx context.Context) {
		for change := range n.Watch(ctx) {
			for _, s := range change.Lost {
				forget(s.Number)
			}
		}
	}
	_ = watch
}

// Callbacks inform the app of the cluster. They run one at a time, apart from requests.
func ExampleConfig_callbacks() {
	_ = embed.Config{
		NodeLeft: func(_ context.Context, c embed.NodeChange) {
			log.Printf("node %s: %s", c.Node, c.Reason)
		},
		RebalanceCompleted: func(_ context.Context, r embed.Rebalance) {
			if !r.Abandoned {
				log.Printf("%d shards moved in %v because of %s", r.Moved, r.Duration, r.Reason)
			}
		},
		ClusterHealthChanged: func(_ context.Context, h embed.ClusterHealth) {
			if h.State == "degraded" || h.State == "unavailable" {
				log.Printf("the cluster is %s: %s", h.State, h.Reason)
			}
		},
	}
}

// Events contains everything that the node observes.
func ExampleNode_Events() {
	var n *embed.Node
	watch := func(ctx context.Context) {
		for e := range n.Events(ctx) {
			if e.Kind == "leader-elected" {
				log.Printf("node %s leads in term %d", e.Node, e.Term)
			}
		}
	}
	_ = watch
}

// A timer runs only on the owner of the shard of its key.
func ExampleNode_IsOwner() {
	var n *embed.Node
	tick := func(key string, work func()) {
		if n.IsOwner(n.ShardOf(key)) {
			work()
		}
	}
	_ = tick
}

// A stream counts as running until its writer has returned.
func ExampleStream() {
	handler := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/event-stream")
		embed.Stream(ctx, func(w *bufio.Writer) {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case now := <-tick.C:
					_, _ = fmt.Fprintf(w, "data: %s\n\n", now)
					if w.Flush() != nil {
						return
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	_ = embed.Config{Handler: handler}
}
