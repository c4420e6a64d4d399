package connpool

// peerProcess identifies a process of another node. A node whose data directory was emptied restarts its boot
// numbers at 1, but has a different nonce.
type peerProcess struct {
	boot  uint64 // zero means unknown
	nonce uint64 // zero means unknown
}

// differsFrom reports whether conn is known to lead to another process. Nonces are compared if both are known.
// Otherwise the boot numbers are compared, because the nonce may be unknown right after a process has started.
func (process peerProcess) differsFrom(conn *Conn) bool {
	if process.nonce != 0 && conn.Nonce != 0 {
		return conn.Nonce != process.nonce
	}
	return process.boot != 0 && conn.Boot != 0 && conn.Boot != process.boot
}

// adopt records the process that accepted conn as the current one, even if another was reported before. It ignores
// a multiplexed stream, because its session may have been accepted by a previous process. changed is false if the
// process was known already.
func (process *peerProcess) adopt(conn *Conn) (changed bool) {
	if conn.Boot == 0 || conn.Mux != nil {
		return false
	}
	isPresentProcess := process.nonce != 0 && !process.differsFrom(conn)
	if isPresentProcess {
		return false
	}
	*process = peerProcess{boot: conn.Boot, nonce: conn.Nonce}
	return true
}
