//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"

	"shardway/e2e/kit/wsresume"
)

// keptEnd is a client at work, by what others implemented.
type keptEnd interface {
	// newest is the newest number of the app, and an error once the socket is closed.
	newest() (wsresume.Number, error)
	// stop asks the app to close, once.
	stop()
	// wait waits for the end, and returns what the client saw.
	wait() wsresume.Client
}

// keptClient is one by coder/websocket.
type keptClient struct {
	ws      *websocket.Conn
	working sync.WaitGroup
	end     chan struct{}

	mu  sync.Mutex
	saw wsresume.Client
}

// dialKept opens a socket and begins to send, a number every so often. It ends with ctx, or
// as stop asks.
func dialKept(ctx context.Context, addr, key, name string, every time.Duration) (*keptClient, error) {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/?client="+name+"&key="+key, nil) //nolint:bodyclose // there is none after 101
	if err != nil {
		return nil, err
	}
	c := &keptClient{ws: ws, end: make(chan struct{}), saw: wsresume.Client{Name: name}}
	c.working.Go(func() { c.read(ctx) })
	c.working.Go(func() { c.write(ctx, every) })
	return c, nil
}

func (c *keptClient) read(ctx context.Context) {
	defer func() { _ = c.ws.CloseNow() }()
	for {
		_, b, err := c.ws.Read(ctx)
		var n wsresume.Number
		if err == nil {
			_, err = fmt.Sscanf(string(b), "%d %d %d", &n.Conn, &n.N, &n.Ack)
		}
		c.mu.Lock()
		switch {
		case err == nil:
			c.saw.Got = append(c.saw.Got, n)
		case c.asked() && websocket.CloseStatus(err) == websocket.StatusNormalClosure:
		default:
			c.saw.Err = err.Error()
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *keptClient) asked() bool {
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}

func (c *keptClient) write(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last, ticks := false, 1; !last; ticks++ {
		word := ""
		select {
		case <-tick.C:
			if n, _ := c.newest(); c.sent() >= n.Ack+wsresume.Window && ticks%wsresume.Nudge != 0 {
				continue
			}
		case <-c.end:
			word, last = wsresume.Ask, true
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		c.saw.Sent++
		text := fmt.Sprint(word, c.saw.Sent)
		c.mu.Unlock()
		if c.ws.Write(ctx, websocket.MessageText, []byte(text)) != nil {
			return // the reader tells why
		}
	}
}

func (c *keptClient) sent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saw.Sent
}

func (c *keptClient) newest() (wsresume.Number, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saw.Err != "" {
		return wsresume.Number{}, errors.New(c.saw.Name + ": " + c.saw.Err)
	}
	if len(c.saw.Got) == 0 {
		return wsresume.Number{}, nil
	}
	return c.saw.Got[len(c.saw.Got)-1], nil
}

func (c *keptClient) stop() { close(c.end) }

func (c *keptClient) wait() wsresume.Client {
	c.working.Wait()
	return c.saw
}
