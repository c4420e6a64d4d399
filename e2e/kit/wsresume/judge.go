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

// Client is what a client has seen.
type Client struct {
	Name string
	Sent uint64 // its last number
	Got  []Number
	// Err is how the socket ended, unless the app closed it as it was asked to.
	Err string
}

// Number is a message of the app: of its leg, and after the Ack-th of the client.
type Number struct{ Leg, N, Ack uint64 }

// Leg is what an app saw of a socket.
type Leg struct {
	Client, Socket string
	Leg            uint64
	Gap            bool
	Begin, End     int64 // readings of history.Now; an app that died has an end when it last saw something
	// How it ended: "moved" and "closed" by the app's Close, "broken", or "" with the app.
	How  string
	Last uint64 // the last number that it sent, if it ended before the app
	Got  []uint64
}

// Read reads the logs of all apps in a directory, also while apps write them.
func Read(dir string) ([]*Leg, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "log-*"))
	if err != nil {
		return nil, err
	}
	var legs []*Leg
	for _, name := range logs {
		more, err := readLog(name)
		if err != nil {
			return nil, fmt.Errorf("kept: %s: %w", name, err)
		}
		legs = append(legs, more...)
	}
	return legs, nil
}

func readLog(name string) (legs []*Leg, err error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	type id struct {
		socket string
		leg    uint64
	}
	open := map[id]*Leg{}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return legs, nil // what follows the last line is one that is being written
		}
		var n note
		if err = cmp.Or(err, json.Unmarshal(line, &n)); err != nil {
			return nil, err
		}
		l := open[id{n.Socket, n.Leg}]
		if n.What == "begin" {
			l = &Leg{Client: n.Client, Socket: n.Socket, Leg: n.Leg, Gap: n.Gap, Begin: n.At}
			open[id{n.Socket, n.Leg}] = l
			legs = append(legs, l)
		}
		l.End = n.At
		switch n.What {
		case "begin":
		case "got":
			l.Got = append(l.Got, n.N)
		default:
			l.How, l.Last = n.What, n.N
		}
	}
}

// Judge checks what clients and apps saw: every socket stayed open, had one leg at a time,
// and lost nothing, or only where its app was told so; nothing came twice or out of order.
func Judge(clients []Client, legs []*Leg) (wrong []string) {
	of := map[string][]*Leg{}
	for _, l := range legs {
		of[l.Client] = append(of[l.Client], l)
	}
	owner := map[string]string{}
	for i := range clients {
		c := &clients[i]
		j := judge{Client: c, legs: of[c.Name]}
		slices.SortStableFunc(j.legs, func(a, b *Leg) int { return cmp.Compare(a.Leg, b.Leg) })
		j.all()
		for _, l := range j.legs {
			if other, ok := owner[l.Socket]; ok && other != c.Name {
				j.breaks("it has the id of %s", other)
			}
			owner[l.Socket] = c.Name
		}
		wrong = append(wrong, j.wrong...)
	}
	return wrong
}

// unplannedWithin is the time in which a socket bears three legs that break.
const unplannedWithin = int64(time.Minute)

// Unplanned is how many legs of one client began with a gap within a minute, at most.
func Unplanned(legs []*Leg) (most int) {
	began := map[string][]int64{}
	for _, l := range legs {
		if l.Gap {
			began[l.Client] = append(began[l.Client], l.Begin)
		}
	}
	for _, at := range began {
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

// judge is that of one client.
type judge struct {
	*Client
	legs  []*Leg
	wrong []string
}

func (j *judge) says(format string, args ...any) {
	j.wrong = append(j.wrong, j.Name+": "+fmt.Sprintf(format, args...))
}

// breaks says what must not be however late things happen.
func (j *judge) breaks(format string, args ...any) {
	j.says(format+": "+history.SafetyViolated, args...)
}

func (j *judge) all() {
	if j.Err != "" {
		j.says("the client's socket was closed: %s; at most %d unplanned legs within a minute", j.Err, Unplanned(j.legs))
	}
	if len(j.legs) == 0 {
		j.says("no app has seen it")
		return
	}
	for i, l := range j.legs {
		if i == 0 {
			continue
		}
		before := j.legs[i-1]
		switch {
		case l.Leg == before.Leg:
			j.breaks("two legs are the %d.", l.Leg)
		case l.Socket != before.Socket:
			j.breaks("leg %d has another id than leg %d", l.Leg, before.Leg)
		case l.Begin < before.End:
			j.breaks("leg %d begins while leg %d is there", l.Leg, before.Leg)
		case before.How == "closed":
			j.breaks("leg %d follows a Close", l.Leg)
		case before.How != "moved" && !l.Gap:
			j.breaks("leg %d is not told of the gap after leg %d", l.Leg, before.Leg)
		}
	}
	if first := j.legs[0]; first.Leg != 0 || first.Gap {
		j.breaks("it begins with leg %d", first.Leg)
	}
	j.up()
	j.down()
}

// up judges what the client sent.
func (j *judge) up() {
	last, gap := uint64(0), false
	for _, l := range j.legs {
		gap = gap || l.Gap
		for _, n := range l.Got {
			switch {
			case n <= last:
				j.breaks("leg %d got %d after %d: repeated or out of order", l.Leg, n, last)
			case n > last+1 && !gap:
				j.breaks("leg %d got %d after %d: lost without a gap", l.Leg, n, last)
			}
			last, gap = n, false
		}
	}
	if last != j.Sent {
		j.says("the app got %d as the last, the client sent %d", last, j.Sent)
	}
}

// down judges what the app sent.
func (j *judge) down() {
	last := Number{}
	for _, n := range j.Got {
		switch {
		case n.Leg < last.Leg || n.N <= last.N:
			j.breaks("it got %d of leg %d after %d of leg %d: repeated or out of order", n.N, n.Leg, last.N, last.Leg)
		case n.N > last.N+1 && !j.gap(last.Leg, n.Leg):
			j.breaks("it got %d of leg %d after %d of leg %d: lost without a gap", n.N, n.Leg, last.N, last.Leg)
		}
		last = n
	}
	if end := j.legs[len(j.legs)-1]; end.Last != last.N {
		j.says("it got %d as the last, the app sent %d", last.N, end.Last)
	}
}

// gap reports whether a leg behind one, up to another, was told that something is missing.
func (j *judge) gap(from, to uint64) bool {
	return slices.ContainsFunc(j.legs, func(l *Leg) bool { return l.Gap && l.Leg > from && l.Leg <= to })
}
