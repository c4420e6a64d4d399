package h1

import "io"

// Ready returns what is there of the body, without waiting: nothing if there is
// none, io.EOF at its end. It is valid until the next read, and for those who look
// at what they pass on.
func (b *Body) Ready() ([]byte, error) {
	if _, err := b.takeBuffered(nil); err != nil {
		if err == errNeedMore { //nolint:errorlint // never wrapped
			err = nil
		}
		return nil, err
	}
	p := b.in.unread()
	if b.kind != UntilClose && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	b.in.discard(len(p))
	return p, b.consumed(len(p))
}

// Await waits until more of the body has come, or its end: then Ready tells. While
// it waits it holds no buffer but one with unread bytes.
func (b *Body) Await() error {
	in := b.in
	in.release()
	began, err := b.arm()
	if err != nil {
		return b.fail(err)
	}
	defer b.addWait(began)
	b.started = true
	if err := in.moreLean(); err != nil {
		if err = b.ended(err); err != io.EOF { //nolint:errorlint // never wrapped
			return err
		}
	}
	return nil
}
