package demo

import "errors"

// room is the chat room of a key.
type room struct {
	Last  int            `json:"last"`  // number of the newest line
	Lines []chatLine     `json:"lines"` // the newest ones
	Seqs  map[string]int `json:"seqs"`  // page → sequence number of its last line

	news chan struct{} // closed when a line is added; nil if no goroutine waits
}

// chatLine is line N of a room. It is line Seq of the page Me.
type chatLine struct {
	N    int    `json:"n"`
	Me   string `json:"me"`
	Seq  int    `json:"seq"`
	Text string `json:"text"`
}

// maxRoomLines is the number of lines that a room stores.
const maxRoomLines = 200

// room returns the room of a request. a.mu must be held.
func (a *App) room(x Answer) (*heldShard, *room, error) {
	c := a.shards[x.Shard]
	if c == nil || c.epoch != x.Epoch {
		return nil, nil, errNotAcquired
	}
	r := c.Rooms[x.Key]
	if r == nil {
		r = &room{Seqs: make(map[string]int)}
		c.Rooms[x.Key] = r
	}
	return c, r, nil
}

// checkHeld returns an error if the app does not hold the shard of a request.
func (a *App) checkHeld(x Answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _, err := a.room(x)
	return err
}

// addLine adds a line to a room. It ignores a repeated line, and saves the shard before other pages
// receive the line.
func (a *App) addLine(x Answer, l chatLine) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, r, err := a.room(x)
	if err != nil || l.Seq != r.Seqs[l.Me]+1 { // a duplicate, or a line before it is missing and the page will send both again
		return err
	}
	r.Last++
	l.N, r.Seqs[l.Me] = r.Last, l.Seq
	r.Lines = append(r.Lines[max(0, len(r.Lines)-maxRoomLines+1):], l)
	if err := a.save(x.Shard, c); err != nil {
		delete(a.shards, x.Shard) // the content of the file is unknown: the next request reloads the shard
		err = errors.Join(err, errNotAcquired)
		return err
	}
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
	return nil
}

// linesAfter returns the lines after number have. news is closed when there are more.
func (a *App) linesAfter(x Answer, have int) (lines []chatLine, news <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, r, err := a.room(x)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range r.Lines {
		if l.N > have {
			lines = append(lines, l)
		}
	}
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return lines, r.news, nil
}
