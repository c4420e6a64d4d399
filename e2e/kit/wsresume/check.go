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
	Index           uint64
	Gap             bool
	Begin, End      int64 // values of history.Now; for an app that died, End is the time of its last record
	// EndReason is eventMoved, eventClosed or eventBroken, or "" if the app died.
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
		connsOfApp, err := readLog(name)
		if err != nil {
			return nil, fmt.Errorf("wsresume: %s: %w", name, err)
		}
		conns = append(conns, connsOfApp...)
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
	index   uint64 // of the connection within its session
}

// add adds an entry of the log.
func (l *appLog) add(record entry) {
	id := connID{record.Session, record.ConnIndex}
	if record.Event == eventBegin {
		conn := &Conn{Client: record.Client, Session: record.Session, Index: record.ConnIndex, Gap: record.Gap, Begin: record.Time, End: record.Time}
		l.connByID[id] = conn
		l.conns = append(l.conns, conn)
		return
	}
	conn := l.connByID[id]
	conn.End = record.Time
	if record.Event == eventReceived {
		conn.Received = append(conn.Received, record.MessageNumber)
	} else {
		conn.EndReason, conn.LastSent = record.Event, record.MessageNumber
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
		slices.SortStableFunc(check.conns, func(a, b *Conn) int { return cmp.Compare(a.Index, b.Index) })
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
	if first := c.conns[0]; first.Index != 0 || first.Gap {
		c.reportViolation("it begins with connection %d", first.Index)
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
	case conn.Index == previous.Index:
		c.reportViolation("two connections have the number %d", conn.Index)
	case conn.Session != previous.Session:
		c.reportViolation("connection %d has another session ID than connection %d", conn.Index, previous.Index)
	case conn.Begin < previous.End:
		c.reportViolation("connection %d begins before the end of connection %d", conn.Index, previous.Index)
	case previous.EndReason == eventClosed:
		c.reportViolation("connection %d follows a Close", conn.Index)
	case previous.EndReason != eventMoved && !conn.Gap:
		c.reportViolation("connection %d was not told of the gap after connection %d", conn.Index, previous.Index)
	}
}

// checkUpstream checks the messages of the client.
func (c *checker) checkUpstream() {
	lastNumber, hasGap := uint64(0), false
	for _, conn := range c.conns {
		hasGap = hasGap || conn.Gap
		for _, number := range conn.Received {
			switch {
			case number <= lastNumber:
				c.reportViolation("connection %d received %d after %d: repeated or out of order", conn.Index, number, lastNumber)
			case number > lastNumber+1 && !hasGap:
				c.reportViolation("connection %d received %d after %d: lost without a gap", conn.Index, number, lastNumber)
			}
			lastNumber, hasGap = number, false
		}
	}
	if lastNumber != c.Sent {
		c.report("the app received %d as the last, the client sent %d", lastNumber, c.Sent)
	}
}

// checkDownstream checks the messages of the app.
func (c *checker) checkDownstream() {
	previous := AppMessage{}
	for _, message := range c.Received {
		switch {
		case message.Conn < previous.Conn || message.Number <= previous.Number:
			c.reportViolation("it received %d from connection %d after %d from connection %d: repeated or out of order", message.Number, message.Conn, previous.Number, previous.Conn)
		case message.Number > previous.Number+1 && !c.hasGap(previous.Conn, message.Conn):
			c.reportViolation("it received %d from connection %d after %d from connection %d: lost without a gap", message.Number, message.Conn, previous.Number, previous.Conn)
		}
		previous = message
	}
	if end := c.conns[len(c.conns)-1]; end.LastSent != previous.Number {
		c.report("it received %d as the last, the app sent %d", previous.Number, end.LastSent)
	}
}

// hasGap reports whether a connection after from, up to to, was told of a gap.
func (c *checker) hasGap(from, last uint64) bool {
	return slices.ContainsFunc(c.conns, func(conn *Conn) bool { return conn.Gap && conn.Index > from && conn.Index <= last })
}
