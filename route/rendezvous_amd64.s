//go:build !purego

#include "textflag.h"

// SCORE computes eight scores of the group at offset off from DI into S, with
// the key's words in Y0 and Y1. T is scratch.
#define SCORE(off, S, T) \
	VPXOR   off(DI), Y0, S      \
	VPMULLD (off+32)(DI), S, S  \
	VPSRLD  $15, S, T           \
	VPXOR   T, S, S             \
	VPMULLD Y1, S, S

// FLOOR computes the floors of the group at DI, whose handicaps are at SI, into
// S. Y5 is -1 and T is scratch.
#define FLOOR(S, T) \
	SCORE(0, S, T)          \
	VPXOR     Y5, S, S      \
	VPSRLD    $1, S, S      \ // the conversion is signed
	VCVTDQ2PS S, S          \
	VMULPS    (SI), S, S

// EQUALS appends to R8, from above, which lanes of the group at off score Y6.
#define EQUALS(off, S, T) \
	SCORE(off, S, T)         \
	VPCMPEQD  Y6, S, S       \
	VMOVMSKPS S, AX          \
	SHLQ      $8, R8         \
	ORQ       AX, R8

// func bestAVX2(groups *seedGroup, blocks int, d draw) int
//
// Every lane keeps its highest score (Y2) and the first block that had it
// (Y3). The block of the winner is then scored again to find its place, which
// is cheaper than to keep the place at every step.
TEXT ·bestAVX2(SB), NOSPLIT, $0-32
	MOVQ         groups+0(FP), SI
	MOVQ         blocks+8(FP), CX
	MOVL         d_mask+16(FP), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	MOVL         d_multiplier+20(FP), AX
	VMOVD        AX, X1
	VPBROADCASTD X1, Y1
	VPXOR        Y2, Y2, Y2
	VPXOR        Y3, Y3, Y3
	VPXOR        Y4, Y4, Y4           // this block
	VPCMPEQD     Y5, Y5, Y5           // -1
	MOVQ         SI, DI

block:
	SCORE(0, Y6, Y7)
	SCORE(64, Y8, Y9)
	SCORE(128, Y10, Y11)
	SCORE(192, Y12, Y13)
	VPMAXUD Y6, Y8, Y6
	VPMAXUD Y10, Y12, Y10
	VPMAXUD Y6, Y10, Y14
	SCORE(256, Y6, Y7)
	SCORE(320, Y8, Y9)
	SCORE(384, Y10, Y11)
	SCORE(448, Y12, Y13)
	VPMAXUD   Y6, Y8, Y6
	VPMAXUD   Y10, Y12, Y10
	VPMAXUD   Y6, Y10, Y6
	VPMAXUD   Y6, Y14, Y6
	VPMAXUD   Y6, Y2, Y7
	VPCMPEQD  Y7, Y2, Y8               // lanes whose best stays
	VPBLENDVB Y8, Y3, Y4, Y3
	VMOVDQA   Y7, Y2
	VPSUBD    Y5, Y4, Y4
	ADDQ      $512, DI
	DECQ      CX
	JNZ       block

	// Y6: the highest score, in all lanes.
	VPERM2I128 $1, Y2, Y2, Y6
	VPMAXUD    Y6, Y2, Y6
	VPSHUFD    $0x4E, Y6, Y7
	VPMAXUD    Y7, Y6, Y6
	VPSHUFD    $0xB1, Y6, Y7
	VPMAXUD    Y7, Y6, Y6

	// DX: the first block of the lanes that have it.
	VPCMPEQD     Y6, Y2, Y7
	VPXOR        Y5, Y7, Y7
	VPOR         Y7, Y3, Y3
	VEXTRACTI128 $1, Y3, X7
	VPMINUD      X7, X3, X3
	VPSHUFD      $0x4E, X3, X7
	VPMINUD      X7, X3, X3
	VPSHUFD      $0xB1, X3, X7
	VPMINUD      X7, X3, X3
	VMOVD        X3, DX

	MOVQ DX, DI
	SHLQ $9, DI
	ADDQ SI, DI
	XORL R8, R8
	EQUALS(448, Y8, Y9)
	EQUALS(384, Y10, Y11)
	EQUALS(320, Y12, Y13)
	EQUALS(256, Y14, Y15)
	EQUALS(192, Y8, Y9)
	EQUALS(128, Y10, Y11)
	EQUALS(64, Y12, Y13)
	EQUALS(0, Y14, Y15)
	BSFQ R8, R8
	SHLQ $6, DX
	ADDQ DX, R8
	MOVQ R8, ret+24(FP)
	VZEROUPPER
	RET

// func nearAVX2(groups *seedGroup, handicap *float32, from, to int, d draw, bound float32) (group int, lanes uint32)
TEXT ·nearAVX2(SB), NOSPLIT, $0-60
	MOVQ         groups+0(FP), DI
	MOVQ         handicap+8(FP), SI
	MOVQ         from+16(FP), CX
	MOVQ         to+24(FP), DX
	MOVL         d_mask+32(FP), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	MOVL         d_multiplier+36(FP), AX
	VMOVD        AX, X1
	VPBROADCASTD X1, Y1
	VBROADCASTSS bound+40(FP), Y2
	VPCMPEQD     Y5, Y5, Y5
	MOVQ         CX, AX
	SHLQ         $6, AX
	ADDQ         AX, DI
	MOVQ         CX, AX
	SHLQ         $5, AX
	ADDQ         AX, SI

group:
	FLOOR(Y6, Y7)
	VCMPPS    $0x11, Y2, Y6, Y6        // below, and false for not-a-number
	VMOVMSKPS Y6, AX
	TESTL     AX, AX
	JNZ       done
	ADDQ      $64, DI
	ADDQ      $32, SI
	INCQ      CX
	CMPQ      CX, DX
	JLT       group

done:
	MOVQ CX, group+48(FP)
	MOVL AX, lanes+56(FP)
	VZEROUPPER
	RET

DATA lanes<>+0(SB)/4, $0
DATA lanes<>+4(SB)/4, $1
DATA lanes<>+8(SB)/4, $2
DATA lanes<>+12(SB)/4, $3
DATA lanes<>+16(SB)/4, $4
DATA lanes<>+20(SB)/4, $5
DATA lanes<>+24(SB)/4, $6
DATA lanes<>+28(SB)/4, $7
GLOBL lanes<>(SB), RODATA|NOPTR, $32

// func lowestAVX2(groups *seedGroup, handicap *float32, n int, d draw) (position int, second float32)
//
// Every lane keeps its lowest floor (Y2), the first group that had it (Y3) and
// its second lowest floor (Y9).
TEXT ·lowestAVX2(SB), NOSPLIT, $0-44
	MOVQ         groups+0(FP), DI
	MOVQ         handicap+8(FP), SI
	MOVQ         n+16(FP), CX
	MOVL         d_mask+24(FP), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	MOVL         d_multiplier+28(FP), AX
	VMOVD        AX, X1
	VPBROADCASTD X1, Y1
	MOVL         $0x7F800000, AX      // +Inf
	VMOVD        AX, X2
	VPBROADCASTD X2, Y2
	VMOVDQA      Y2, Y9
	VPXOR        Y3, Y3, Y3
	VPXOR        Y4, Y4, Y4           // this group
	VPCMPEQD     Y5, Y5, Y5

next:
	FLOOR(Y6, Y7)
	VCMPPS    $0x11, Y2, Y6, Y7
	VMAXPS    Y2, Y6, Y8
	VMINPS    Y8, Y9, Y9
	VMINPS    Y2, Y6, Y2
	VPBLENDVB Y7, Y4, Y3, Y3
	VPSUBD    Y5, Y4, Y4
	ADDQ      $64, DI
	ADDQ      $32, SI
	DECQ      CX
	JNZ       next

	// Y6: the lowest floor, in all lanes.
	VPERM2F128 $1, Y2, Y2, Y6
	VMINPS     Y6, Y2, Y6
	VPSHUFD    $0x4E, Y6, Y7
	VMINPS     Y7, Y6, Y6
	VPSHUFD    $0xB1, Y6, Y7
	VMINPS     Y7, Y6, Y6

	// AX: the first position that has it.
	VMOVDQU      lanes<>(SB), Y10
	VCMPPS       $0, Y6, Y2, Y7
	VPXOR        Y5, Y7, Y7
	VPSLLD       $3, Y3, Y3
	VPADDD       Y10, Y3, Y3
	VPOR         Y7, Y3, Y3
	VEXTRACTI128 $1, Y3, X7
	VPMINUD      X7, X3, X3
	VPSHUFD      $0x4E, X3, X7
	VPMINUD      X7, X3, X3
	VPSHUFD      $0xB1, X3, X7
	VPMINUD      X7, X3, X3
	VMOVD        X3, AX
	MOVQ         AX, position+32(FP)

	// X2: the lowest floor of the others, with the winner's lane's second.
	ANDL         $7, AX
	VMOVD        AX, X7
	VPBROADCASTD X7, Y7
	VPCMPEQD     Y7, Y10, Y7
	VPBLENDVB    Y7, Y9, Y2, Y2
	VEXTRACTF128 $1, Y2, X7
	VMINPS       X7, X2, X2
	VPSHUFD      $0x4E, X2, X7
	VMINPS       X7, X2, X2
	VPSHUFD      $0xB1, X2, X7
	VMINPS       X7, X2, X2
	VMOVSS       X2, second+40(FP)
	VZEROUPPER
	RET
