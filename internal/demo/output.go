package demo

import (
	"bytes"
	"io"
	"sync"
)

// output is the user's terminal, shared by the supervisor and, when verbose, the
// logs of every process. Each write goes out whole.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}

// maxLine bounds what a prefixer keeps of a line that does not end.
const maxLine = 64 << 10

// prefixer puts a process's name before each of its lines. It is used from one
// goroutine.
type prefixer struct {
	w      io.Writer
	prefix string
	line   []byte // begun, not ended
}

// Write never fails: a terminal that is gone must not stop the process from
// logging to its file.
func (p *prefixer) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			p.line = append(p.line, rest...)
			if len(p.line) > maxLine {
				p.flush()
			}
			break
		}
		p.line = append(p.line, rest[:end]...)
		rest = rest[end:]
		p.flush()
	}
	return len(b), nil
}

func (p *prefixer) flush() {
	if len(p.line) == 0 {
		return
	}
	whole := append([]byte(p.prefix), bytes.TrimSuffix(p.line, []byte("\n"))...)
	_, _ = p.w.Write(append(whole, '\n'))
	p.line = p.line[:0]
}
