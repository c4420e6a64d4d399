package demo

import "errors"

// room is a chat: what was said under one key.
type room struct {
	Last  int            `json:"last"`  // number of the newest line
	Lines []chatLine     `json:"lines"` // the newest ones
	Seqs  map[string]int `json:"seqs"`  // of each page the last line that it said

	news chan struct{} // closed when there is another line; nil: nobody waits
}

// chatLine is one of a room: the N-th there, and the Seq-th of the page that said it.
type chatLine struct {
	N    int    `json:"n"`
	Me   string `json:"me"`
	Seq  int    `json:"seq"`
	Text string `json:"text"`
}

// kept is how many lines are there for a page that comes.
const kept = 200

// room returns the room of a leg. The lock is held.
func (a *App) room(x Answer) (*held, *room, error) {
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

// has reports whether the app holds the shard of a request.
func (a *App) has(x Answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _, err := a.room(x)
	return err
}

// say adds a line, once: it is written before anyone hears of it.
func (a *App) say(x Answer, l chatLine) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, r, err := a.room(x)
	if err != nil || l.Seq != r.Seqs[l.Me]+1 { // else it is there, or comes again behind what is missing
		return err
	}
	r.Last++
	l.N, r.Seqs[l.Me] = r.Last, l.Seq
	r.Lines = append(r.Lines[max(0, len(r.Lines)-kept+1):], l)
	if err := a.save(x.Shard, c); err != nil {
		delete(a.shards, x.Shard) // whatever the file says now: it is loaded again before the next
		err = errors.Join(err, errNotAcquired)
		return err
	}
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
	return nil
}

// since returns the lines behind those that a page has, and what is closed when there are more.
func (a *App) since(x Answer, have int) (lines []chatLine, news <-chan struct{}, err error) {
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
