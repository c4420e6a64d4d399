package h1

import "io"

// TakeAvailable returns the available data of the body without blocking. It returns nothing if no
// data is available, and io.EOF at the end. The data is valid until the next read. It is used by
// callers that inspect the data that they forward.
func (b *Body) TakeAvailable() ([]byte, error) {
	if _, err := b.readBuffered(nil); err != nil {
		if err == errNeedMore { //nolint:errorlint // never wrapped
			err = nil
		}
		return nil, err
	}
	p := b.limitToBody(b.in.unread())
	b.in.discard(len(p))
	return p, b.recordConsumed(len(p))
}

// AwaitData waits until TakeAvailable can return data or the end of the body. While it waits, it
// holds no buffer, unless the buffer contains unread bytes.
func (b *Body) AwaitData() error {
	in := b.in
	in.releaseEmptyBuffer()
	waitStart, err := b.startWait()
	if err != nil {
		return b.fail(err)
	}
	defer b.addWaitTime(waitStart)
	b.readStarted = true
	if err := in.readMoreWithSmallBuffer(); err != nil {
		if err = b.handleReadError(err); err != io.EOF { //nolint:errorlint // never wrapped
			return err
		}
	}
	return nil
}

// Available returns the number of bytes that have been read from the connection but not consumed. They may extend
// beyond the body.
func (b *Body) Available() int { return b.in.buffered() }
