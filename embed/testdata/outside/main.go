// Command outside is a program of another module with a node in it: a counter for
// each key, which is right because one node at a time has it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/embed"
)

func main() {
	c := embed.Config{Key: []string{"path:1"}, BootstrapExpect: 1, Log: io.Discard}
	flag.StringVar(&c.Listen, "listen", "", "where clients come in")
	flag.StringVar(&c.Admin, "admin", "", "where the operator does")
	flag.StringVar(&c.Peer, "peer", "", "where other nodes do")
	flag.StringVar(&c.Gossip, "gossip", "", "where they find each other")
	flag.StringVar(&c.Data, "data", "", "where the node keeps what it must not forget")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(c embed.Config) error {
	var mu sync.Mutex
	counts := map[string]int{}
	c.Handler = func(ctx *fasthttp.RequestCtx) {
		key := string(ctx.Request.Header.Peek("Shardway-Key"))
		mu.Lock()
		counts[key]++
		n := counts[key]
		mu.Unlock()
		fmt.Fprintf(ctx, "%s %d", key, n)
	}
	n, err := embed.New(c)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	for n.Ready() != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 {
		res, err := http.Get("http://" + n.Addr().String() + "/alice")
		if err != nil {
			return err
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Println(string(body))
	}
	fmt.Println(n.Owner("alice") == n.ID(), n.Epoch("alice") > 0, len(n.Owned()))
	for change := range n.Watch(ctx) {
		fmt.Println(len(change.Gained), len(change.Lost))
		break
	}
	stop()
	return <-ended
}
