package demo

import "errors"

// room is the chat room of a key.
type room struct {
	Last  int            `json:"last"`  // number of the newest line
	Lines []chatLine     `json:"lines"` // the newest ones
	Seqs  map[string]int `json:"seqs"`  // page → sequence number of its last line

	changed chan struct{} // closed when a line is added; nil if no goroutine waits
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
func (a *App) room(request Answer) (*heldShard, *room, error) {
	held := a.shards[request.Shard]
	if held == nil || held.epoch != request.Epoch {
		return nil, nil, errNotAcquired
	}
	chat := held.Rooms[request.Key]
	if chat == nil {
		chat = &room{Seqs: make(map[string]int)}
		held.Rooms[request.Key] = chat
	}
	return held, chat, nil
}

// checkHeld returns an error if the app does not hold the shard of a request.
func (a *App) checkHeld(request Answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _, err := a.room(request)
	return err
}

// addLine adds a line to a room. It ignores a repeated line, and saves the shard before other pages
// receive the line.
func (a *App) addLine(request Answer, line chatLine) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	held, chat, err := a.room(request)
	if err != nil {
		return err
	}
	// Otherwise the line is a duplicate, or a line before it is missing and the page will send both
	// again.
	isNext := line.Seq == chat.Seqs[line.Me]+1
	if !isNext {
		return nil
	}
	chat.Last++
	line.N, chat.Seqs[line.Me] = chat.Last, line.Seq
	chat.Lines = append(chat.Lines[max(0, len(chat.Lines)-maxRoomLines+1):], line)
	if err := a.save(request.Shard, held); err != nil {
		delete(a.shards, request.Shard) // the content of the file is unknown: the next request reloads the shard
		return errors.Join(err, errNotAcquired)
	}
	if chat.changed != nil {
		close(chat.changed)
		chat.changed = nil
	}
	return nil
}

// linesAfter returns the lines with a number above have. news is closed when the room has further
// lines.
func (a *App) linesAfter(request Answer, have int) (lines []chatLine, news <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, chat, err := a.room(request)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range chat.Lines {
		if line.N > have {
			lines = append(lines, line)
		}
	}
	if chat.changed == nil {
		chat.changed = make(chan struct{})
	}
	return lines, chat.changed, nil
}
