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

// resumeClient is a running client of a third-party library.
type resumeClient interface {
	// newest returns the newest number of the app, and an error once the connection is
	// closed.
	newest() (wsresume.AppMessage, error)
	// stop asks the app to close, once.
	stop()
	// wait waits for the end, and returns what the client observed.
	wait() wsresume.Client
}

// coderClient is a client with coder/websocket.
type coderClient struct {
	ws      *websocket.Conn
	working sync.WaitGroup
	end     chan struct{}

	mu  sync.Mutex
	saw wsresume.Client
}

// dialCoder opens a connection and starts to send numbers at this interval. It ends with
// ctx, or after stop.
func dialCoder(ctx context.Context, addr, key, name string, every time.Duration) (*coderClient, error) {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/?client="+name+"&key="+key, nil) //nolint:bodyclose // there is none after 101
	if err != nil {
		return nil, err
	}
	c := &coderClient{ws: ws, end: make(chan struct{}), saw: wsresume.Client{Name: name}}
	c.working.Go(func() { c.read(ctx) })
	c.working.Go(func() { c.write(ctx, every) })
	return c, nil
}

func (c *coderClient) read(ctx context.Context) {
	defer func() { _ = c.ws.CloseNow() }()
	for {
		_, b, err := c.ws.Read(ctx)
		var n wsresume.AppMessage
		if err == nil {
			_, err = fmt.Sscanf(string(b), "%d %d %d", &n.Conn, &n.Number, &n.LastReceived)
		}
		c.mu.Lock()
		switch {
		case err == nil:
			c.saw.Received = append(c.saw.Received, n)
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

func (c *coderClient) asked() bool {
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}

func (c *coderClient) write(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last, ticks := false, 1; !last; ticks++ {
		word := ""
		select {
		case <-tick.C:
			if n, _ := c.newest(); c.sent() >= n.LastReceived+wsresume.SendWindow && ticks%wsresume.BeyondWindowInterval != 0 {
				continue
			}
		case <-c.end:
			word, last = wsresume.ClosePrefix, true
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		c.saw.Sent++
		text := fmt.Sprint(word, c.saw.Sent)
		c.mu.Unlock()
		if c.ws.Write(ctx, websocket.MessageText, []byte(text)) != nil {
			return // the reader returns the error
		}
	}
}

func (c *coderClient) sent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saw.Sent
}

func (c *coderClient) newest() (wsresume.AppMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saw.Err != "" {
		return wsresume.AppMessage{}, errors.New(c.saw.Name + ": " + c.saw.Err)
	}
	if len(c.saw.Received) == 0 {
		return wsresume.AppMessage{}, nil
	}
	return c.saw.Received[len(c.saw.Received)-1], nil
}

func (c *coderClient) stop() { close(c.end) }

func (c *coderClient) wait() wsresume.Client {
	c.working.Wait()
	return c.saw
}
