package h1

import "syscall"

// resting is a connection that reads ahead, as TLS does, and can do without the memory for
// that while nothing comes.
type resting interface {
	// Drained reports whether all that was read ahead has been handed out.
	Drained() bool
	// Rest gives the memory back. It follows Drained.
	Rest()
}

// idler is the socket below a connection that rests. Who waits there keeps nothing.
type idler struct {
	raw  syscall.RawConn // nil: there is none
	conn resting
	step func(fd uintptr) bool // b.look, bound once
}

func newIdler(conn resting) *idler {
	b := &idler{conn: conn}
	b.step = b.look
	if sc, ok := conn.(syscall.Conn); ok && looks {
		b.raw, _ = sc.SyscallConn() // where there is none, reading waits
	}
	return b
}

// look reports whether reading would find something, and has the connection rest if not.
func (b *idler) look(fd uintptr) bool {
	if !quiet(fd) {
		return true
	}
	b.conn.Rest()
	return false
}

// awaitSocket waits until it is worth reading from a connection that can rest. Others wait
// as they read.
func (in *inlet) awaitSocket() error {
	conn, ok := in.nc.(resting)
	if !ok || in.ends || !conn.Drained() {
		return nil
	}
	if in.idler == nil {
		in.idler = newIdler(conn)
	}
	if in.idler.raw == nil {
		return nil
	}
	err := in.idler.raw.Read(in.idler.step)
	if err != nil {
		err = in.stopped(err)
	}
	return err
}
