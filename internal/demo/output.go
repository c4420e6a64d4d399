package demo

import (
	"bytes"
	"io"
	"sync"
)

// output serializes the writes of the supervisor and, with Verbose, of the logs of all processes.
type output struct {
	mu     sync.Mutex
	writer io.Writer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writer.Write(b)
}

// maxLine is the length after which a prefixer writes an incomplete line.
const maxLine = 64 << 10

// prefixer writes lines with the name of a process as prefix. It is not safe for concurrent use.
type prefixer struct {
	writer io.Writer
	prefix string
	line   []byte // incomplete line
}

// Write never returns an error, because io.MultiWriter would then stop writing to the log file.
func (p *prefixer) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
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
	return len(text), nil
}

func (p *prefixer) flush() {
	if len(p.line) == 0 {
		return
	}
	whole := append([]byte(p.prefix), bytes.TrimSuffix(p.line, []byte("\n"))...)
	_, _ = p.writer.Write(append(whole, '\n'))
	p.line = p.line[:0]
}
