package h1

// SetLimits replaces Options.MaxHeaderBytes, MaxTargetBytes and MaxHeaderLines, beginning with the
// next header. It must not be called during a read.
func (c *Conn) SetLimits(headBytes, targetBytes, headLines int) {
	o := c.o
	o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxHeaderLines = headBytes, targetBytes, headLines
	c.o = o.withDefaults()
	c.in.max = max(c.o.MaxHeaderBytes, c.o.ReadBuffer)
}
