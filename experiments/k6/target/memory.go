package main

import (
	"fmt"
	"strconv"
	"sync"
	"syscall"
)

// mib is what memory is held by, bytes.
const mib = 1 << 20

// mostMemory that may be held, bytes.
const mostMemory = 4 << 30

// held memory is outside of Go's heap: the kernel counts what was asked for, and nothing else.
var held struct {
	sync.Mutex
	blocks [][]byte
}

// hold as many bytes as a request says, rounded up to MiB, until another one says otherwise.
func hold(text string) error {
	bytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil || bytes < 0 || bytes > mostMemory {
		return fmt.Errorf("X-Memory-Bytes must be a whole number from 0 to %d", int64(mostMemory))
	}
	want := int((bytes + mib - 1) / mib)
	held.Lock()
	defer held.Unlock()
	for len(held.blocks) > want {
		last := len(held.blocks) - 1
		if err := syscall.Munmap(held.blocks[last]); err != nil {
			return err
		}
		held.blocks = held.blocks[:last]
	}
	for len(held.blocks) < want {
		block, err := syscall.Mmap(-1, 0, mib, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return err
		}
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		held.blocks = append(held.blocks, block)
	}
	return nil
}
