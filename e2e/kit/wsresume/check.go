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

// Client contains the observations of one client.
type Client struct {
	Name     string
	Sent     uint64 // the last number that the client sent
	Received []AppMessage
	// Err is the reason for the end of its connection. It is empty if the app closed it
	// as requested.
	Err string
}

// AppMessage is a message of the app: the number of its upstream connection, its own number, and the
// last number that the app had received from the client.
type AppMessage struct{ Conn, Number, LastReceived uint64 }

// Conn is an upstream connection of a session, as the app observed it.
type Conn struct {
	Client, Session string
	Number          uint64
	Gap             bool
	Begin, End      int64 // values of history.Now; for an app that died, End is the time of its last record
	// EndReason is the reason for the end: "moved" or "closed" by a Close frame of the app,
	// "broken", or "" if the app died.
	EndReason string
	LastSent  uint64 // the last number that the app sent; zero if the app died before the connection ended
	Received  []uint64
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

// readLog reads the log of one app.
func readLog(name string) ([]*Conn, error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	log := appLog{connByID: make(map[connID]*Conn)}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return log.conns, nil // an incomplete last line is still being written
		}
		var record entry
		if err = cmp.Or(err, json.Unmarshal(line, &record)); err != nil {
			return nil, err
		}
		log.add(record)
	}
}

// appLog contains the upstream connections in the log of one app.
type appLog struct {
	conns    []*Conn
	connByID map[connID]*Conn
}

// connID identifies an upstream connection.
type connID struct {
	session string
	number  uint64 // of the connection within its session
}

// add adds an entry of the log.
func (l *appLog) add(record entry) {
	id := connID{record.Session, record.ConnNumber}
	if record.Event == "begin" {
		conn := &Conn{Client: record.Client, Session: record.Session, Number: record.ConnNumber, Gap: record.Gap, Begin: record.Time, End: record.Time}
		l.connByID[id] = conn
		l.conns = append(l.conns, conn)
		return
	}
	conn := l.connByID[id]
	conn.End = record.Time
	if record.Event == "got" {
		conn.Received = append(conn.Received, record.Number)
	} else {
		conn.EndReason, conn.LastSent = record.Event, record.Number
	}
}

// Check checks the observations of clients and apps, and returns the violations of these rules:
//   - Each client connection stays open, and has one upstream connection at a time.
//   - Messages are lost only in a gap that the node has reported to the app.
//   - No message is repeated or reordered.
func Check(clients []Client, conns []*Conn) (violations []string) {
	byClient := map[string][]*Conn{}
	for _, conn := range conns {
		byClient[conn.Client] = append(byClient[conn.Client], conn)
	}
	clientOf := map[string]string{}
	for i := range clients {
		client := &clients[i]
		check := checker{Client: client, conns: byClient[client.Name]}
		slices.SortStableFunc(check.conns, func(a, b *Conn) int { return cmp.Compare(a.Number, b.Number) })
		check.checkAll()
		for _, conn := range check.conns {
			if other, ok := clientOf[conn.Session]; ok && other != client.Name {
				check.reportViolation("it has the session ID of %s", other)
			}
			clientOf[conn.Session] = client.Name
		}
		violations = append(violations, check.errors...)
	}
	return violations
}

// unplannedPeriod is the period in which a session survives up to three broken connections.
const unplannedPeriod = int64(time.Minute)

// MaxUnplanned returns the maximum number of connections of one client that began with a gap
// within one minute.
func MaxUnplanned(conns []*Conn) (maxCount int) {
	starts := map[string][]int64{}
	for _, conn := range conns {
		if conn.Gap {
			starts[conn.Client] = append(starts[conn.Client], conn.Begin)
		}
	}
	for _, times := range starts {
		slices.Sort(times)
		for first, last := 0, 0; last < len(times); last++ {
			for times[last]-times[first] >= unplannedPeriod {
				first++
			}
			maxCount = max(maxCount, last-first+1)
		}
	}
	return maxCount
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

// reportViolation reports the violation of a safety property.
func (c *checker) reportViolation(format string, args ...any) {
	c.report(format+": "+history.SafetyViolated, args...)
}

// checkAll checks all rules for the client.
func (c *checker) checkAll() {
	if c.Err != "" {
		c.report("the client's connection was closed: %s; at most %d unplanned connections within a minute", c.Err, MaxUnplanned(c.conns))
	}
	if len(c.conns) == 0 {
		c.report("no app has a record of it")
		return
	}
	if first := c.conns[0]; first.Number != 0 || first.Gap {
		c.reportViolation("it begins with connection %d", first.Number)
	}
	for i, conn := range c.conns[1:] {
		c.checkSuccessor(c.conns[i], conn)
	}
	c.checkUpstream()
	c.checkDownstream()
}

// checkSuccessor checks that an upstream connection may follow the previous one of its client.
func (c *checker) checkSuccessor(previous, conn *Conn) {
	switch {
	case conn.Number == previous.Number:
		c.reportViolation("two connections have the number %d", conn.Number)
	case conn.Session != previous.Session:
		c.reportViolation("connection %d has another session ID than connection %d", conn.Number, previous.Number)
	case conn.Begin < previous.End:
		c.reportViolation("connection %d begins before the end of connection %d", conn.Number, previous.Number)
	case previous.EndReason == "closed":
		c.reportViolation("connection %d follows a Close", conn.Number)
	case previous.EndReason != "moved" && !conn.Gap:
		c.reportViolation("connection %d was not told of the gap after connection %d", conn.Number, previous.Number)
	}
}

// checkUpstream checks the messages of the client.
func (c *checker) checkUpstream() {
	last, gap := uint64(0), false
	for _, conn := range c.conns {
		gap = gap || conn.Gap
		for _, number := range conn.Received {
			switch {
			case number <= last:
				c.reportViolation("connection %d received %d after %d: repeated or out of order", conn.Number, number, last)
			case number > last+1 && !gap:
				c.reportViolation("connection %d received %d after %d: lost without a gap", conn.Number, number, last)
			}
			last, gap = number, false
		}
	}
	if last != c.Sent {
		c.report("the app received %d as the last, the client sent %d", last, c.Sent)
	}
}

// checkDownstream checks the messages of the app.
func (c *checker) checkDownstream() {
	last := AppMessage{}
	for _, number := range c.Received {
		switch {
		case number.Conn < last.Conn || number.Number <= last.Number:
			c.reportViolation("it received %d from connection %d after %d from connection %d: repeated or out of order", number.Number, number.Conn, last.Number, last.Conn)
		case number.Number > last.Number+1 && !c.hasGap(last.Conn, number.Conn):
			c.reportViolation("it received %d from connection %d after %d from connection %d: lost without a gap", number.Number, number.Conn, last.Number, last.Conn)
		}
		last = number
	}
	if end := c.conns[len(c.conns)-1]; end.LastSent != last.Number {
		c.report("it received %d as the last, the app sent %d", last.Number, end.LastSent)
	}
}

// hasGap reports whether a connection after from, up to to, was told of a gap.
func (c *checker) hasGap(from, last uint64) bool {
	return slices.ContainsFunc(c.conns, func(conn *Conn) bool { return conn.Gap && conn.Number > from && conn.Number <= last })
}
