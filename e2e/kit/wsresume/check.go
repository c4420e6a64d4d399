//go:build linux

package wsresume

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Client is what a client observed.
type Client struct {
	Name string
	Sent uint64 // the last number that it sent
	Got  []Number
	// Err is the reason for the end of its connection. It is empty if the app closed it
	// as requested.
	Err string
}

// Number is a message of the app: its upstream connection, its number, and the last
// number that the app had received from the client.
type Number struct{ Conn, N, Ack uint64 }

// Conn is an upstream connection as the app observed it.
type Conn struct {
	Client, Session string
	N               uint64
	Gap             bool
	Begin, End      int64 // values of history.Now; for an app that died, End is the time of its last record
	// How is the reason for the end: "moved" or "closed" by a Close frame of the app,
	// "broken", or "" if the app died.
	How  string
	Last uint64 // Last is the last number that the app sent, if the connection ended before the app.
	Got  []uint64
}

// Read reads the logs of all apps in a directory. The apps may still write them.
func Read(dir string) ([]*Conn, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "log-*"))
	if err != nil {
		return nil, err
	}
	var conns []*Conn
	for _, name := range logs {
		more, err := readLog(name)
		if err != nil {
			return nil, fmt.Errorf("wsresume: %s: %w", name, err)
		}
		conns = append(conns, more...)
	}
	return conns, nil
}

func readLog(name string) (conns []*Conn, err error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	type id struct {
		socket string
		leg    uint64
	}
	open := map[id]*Conn{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return conns, nil // an incomplete last line is still being written
		}
		var e entry
		if err = cmp.Or(err, json.Unmarshal(line, &e)); err != nil {
			return nil, err
		}
		conn := open[id{e.Session, e.Conn}]
		if e.What == "begin" {
			conn = &Conn{Client: e.Client, Session: e.Session, N: e.Conn, Gap: e.Gap, Begin: e.At}
			open[id{e.Session, e.Conn}] = conn
			conns = append(conns, conn)
		}
		conn.End = e.At
		switch e.What {
		case "begin":
		case "got":
			conn.Got = append(conn.Got, e.N)
		default:
			conn.How, conn.Last = e.What, e.N
		}
	}
}

// Check checks what clients and apps observed, and returns the errors. Each client
// connection stayed open and had one upstream connection at a time. Nothing was lost
// without a gap that its app was told of. Nothing was repeated or reordered.
func Check(clients []Client, conns []*Conn) (wrong []string) {
	byClient := map[string][]*Conn{}
	for _, conn := range conns {
		byClient[conn.Client] = append(byClient[conn.Client], conn)
	}
	clientOf := map[string]string{}
	for i := range clients {
		client := &clients[i]
		c := checker{Client: client, conns: byClient[client.Name]}
		slices.SortStableFunc(c.conns, func(a, b *Conn) int { return cmp.Compare(a.N, b.N) })
		c.checkAll()
		for _, conn := range c.conns {
			if other, ok := clientOf[conn.Session]; ok && other != client.Name {
				c.violates("it has the session ID of %s", other)
			}
			clientOf[conn.Session] = client.Name
		}
		wrong = append(wrong, c.errors...)
	}
	return wrong
}

// unplannedWithin is the time within which a session survives three broken connections.
const unplannedWithin = int64(time.Minute)

// Unplanned returns the maximum number of connections of one client that began with a gap
// within one minute.
func Unplanned(conns []*Conn) (most int) {
	starts := map[string][]int64{}
	for _, conn := range conns {
		if conn.Gap {
			starts[conn.Client] = append(starts[conn.Client], conn.Begin)
		}
	}
	for _, at := range starts {
		slices.Sort(at)
		for from, to := 0, 0; to < len(at); to++ {
			for at[to]-at[from] >= unplannedWithin {
				from++
			}
			most = max(most, to-from+1)
		}
	}
	return most
}

// checker checks one client.
type checker struct {
	*Client
	conns  []*Conn
	errors []string
}

func (c *checker) report(format string, args ...any) {
	c.errors = append(c.errors, c.Name+": "+fmt.Sprintf(format, args...))
}

// violates reports the violation of a safety property.
func (c *checker) violates(format string, args ...any) {
	c.report(format+": "+history.SafetyViolated, args...)
}

func (c *checker) checkAll() {
	if c.Err != "" {
		c.report("the client's connection was closed: %s; at most %d unplanned connections within a minute", c.Err, Unplanned(c.conns))
	}
	if len(c.conns) == 0 {
		c.report("no app has a record of it")
		return
	}
	for i, conn := range c.conns {
		if i == 0 {
			continue
		}
		previous := c.conns[i-1]
		switch {
		case conn.N == previous.N:
			c.violates("two connections have the number %d", conn.N)
		case conn.Session != previous.Session:
			c.violates("connection %d has another session ID than connection %d", conn.N, previous.N)
		case conn.Begin < previous.End:
			c.violates("connection %d begins before the end of connection %d", conn.N, previous.N)
		case previous.How == "closed":
			c.violates("connection %d follows a Close", conn.N)
		case previous.How != "moved" && !conn.Gap:
			c.violates("connection %d was not told of the gap after connection %d", conn.N, previous.N)
		}
	}
	if first := c.conns[0]; first.N != 0 || first.Gap {
		c.violates("it begins with connection %d", first.N)
	}
	c.checkUpstream()
	c.checkDownstream()
}

// checkUpstream checks the messages of the client.
func (c *checker) checkUpstream() {
	last, gap := uint64(0), false
	for _, conn := range c.conns {
		gap = gap || conn.Gap
		for _, n := range conn.Got {
			switch {
			case n <= last:
				c.violates("connection %d received %d after %d: repeated or out of order", conn.N, n, last)
			case n > last+1 && !gap:
				c.violates("connection %d received %d after %d: lost without a gap", conn.N, n, last)
			}
			last, gap = n, false
		}
	}
	if last != c.Sent {
		c.report("the app received %d as the last, the client sent %d", last, c.Sent)
	}
}

// checkDownstream checks the messages of the app.
func (c *checker) checkDownstream() {
	last := Number{}
	for _, number := range c.Got {
		switch {
		case number.Conn < last.Conn || number.N <= last.N:
			c.violates("it received %d from connection %d after %d from connection %d: repeated or out of order", number.N, number.Conn, last.N, last.Conn)
		case number.N > last.N+1 && !c.hasGap(last.Conn, number.Conn):
			c.violates("it received %d from connection %d after %d from connection %d: lost without a gap", number.N, number.Conn, last.N, last.Conn)
		}
		last = number
	}
	if end := c.conns[len(c.conns)-1]; end.Last != last.N {
		c.report("it received %d as the last, the app sent %d", last.N, end.Last)
	}
}

// hasGap reports whether a connection after from, up to to, was told of a gap.
func (c *checker) hasGap(from, to uint64) bool {
	return slices.ContainsFunc(c.conns, func(conn *Conn) bool { return conn.Gap && conn.N > from && conn.N <= to })
}
