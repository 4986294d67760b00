package pressure

import "github.com/evictd/evictd/internal/kernelfile"

// Sizes of the files that are read. /proc/meminfo has about 1,500 bytes; a file
// that fills its buffer is not what it should be.
const (
	meminfoMax = 16 << 10
	statMax    = 64 << 10
	numberMax  = 128
)

// kernelFile is a file of the kernel with a buffer of its own, so that what was
// read of one stays valid while another is read.
type kernelFile struct {
	kernelfile.File
	buffer []byte
}

// newKernelFile opens nothing; the first read does.
func newKernelFile(path string, size int) *kernelFile {
	return &kernelFile{File: kernelfile.New(path), buffer: make([]byte, size)}
}

// read returns the whole file. The bytes are valid until the next read.
func (f *kernelFile) read() ([]byte, error) { return f.Read(f.buffer) }

// number returns the one number that the file holds.
func (f *kernelFile) number() (int64, error) { return f.Number(f.buffer) }
