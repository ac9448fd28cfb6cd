package mutants

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// guard is the smallest test that must catch a planted bug.
type guard struct {
	folder, test string
	flags        []string
}

// quietFlags are flags for tests with random data: a failure is what we want here,
// not its smallest form.
var quietFlags = []string{"-rapid.nofailfile", "-rapid.shrinktime=1ms"}

var (
	guardLog             = guard{folder: "internal/storage/wal", test: "TestAcknowledgedEntriesSurviveCrashes"}
	guardRows            = guard{"internal/storage/rowcache", "TestPinnedRowsAreNeverLostAndNoRowIsEverStale", append([]string{"-rapid.checks=500"}, quietFlags...)}
	guardEdges           = guard{"internal/shard/command", "TestEdgesAnswerLikeRedis", quietFlags}
	guardCommands        = guard{"internal/shard/command", "TestCommandsMeanWhatTheModelSays", quietFlags}
	guardVersions        = guard{"internal/shard/group", "TestVersionsAndTimeGoForwardOverCrashes", quietFlags}
	guardRetries         = guard{"internal/shard/group", "TestARequestIsExecutedOnce", quietFlags}
	guardTxns            = guard{"internal/shard/txn", "TestWhatIsDecidedHappensEverywhereAndNothingElseDoes", quietFlags}
	guardMoves           = guard{folder: "internal/reshard/mover", test: "TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens"}
	guardSim             = guard{folder: "internal/testkit/sim", test: "TestPromisesAreKeptWhateverHappens"}
	guardSimContention   = guard{folder: "internal/testkit/sim", test: "TestTransactionsInEachOthersWayHappenOneAfterTheOther"}
	guardFeed            = guard{folder: ".", test: "TestTheFeedFollowsKeysFromStoreToStore"}
	guardTable           = guard{"table", "TestATableIsASortedListOfRowsWhateverItsLayout", append([]string{"-rapid.checks=500"}, quietFlags...)}
	guardHistory         = guard{".", "TestHistoriesAreLinearizableOverCrashes", quietFlags}
	guardCounter         = guard{"counter", "TestACounterIsOneNumber", quietFlags}
	guardSimQueues       = guard{folder: "internal/testkit/sim", test: "TestQueuesKeepWhatTheyPromiseWhateverHappens"}
	guardSimRounds       = guard{folder: "internal/testkit/sim", test: "TestTransactionsSeeWhoHasComeWhateverHappens"}
	guardSimCounters     = guard{folder: "internal/testkit/sim", test: "TestSplitCountersAreExactWhateverHappens"}
	guardQueue           = guard{"queue", "TestAQueueIsAList", quietFlags}
	guardCounterRetries  = guard{folder: "counter", test: "TestARetryDoesNotAddAgainWhateverTheCounterBecame"}
	guardSimSagas        = guard{folder: "internal/testkit/sim", test: "TestSagasEndWholeOrUndoneWhateverHappens"}
	guardHotKey          = guard{folder: "internal/server", test: "TestHeat_HotKey_IsFirstWithItsShareAndItsClient"}
	guardHotKeyOfProgram = guard{folder: ".", test: "TestHeat_HotKeyOfAProgram_IsKnown"}
	guardSagas           = guard{folder: "saga/machine", test: "TestEverySagaEndsWholeOrUndoneWhateverHappens"}
)

// moduleRoot is where the module is.
var moduleRoot = filepath.Join("..", "..", "..")

// mutants are all rules of the tree that can be broken on purpose, and the tests
// that guard them. The histories see from the outside what the small tests see
// from within.
var mutants = map[string][]guard{
	"wal-torn-frame-accepted":  {guardLog},
	"wal-ack-before-durable":   {guardLog, guardHistory, guardSim},
	"wal-sync-without-fence":   {guardLog},
	"wal-stale-bytes-replayed": {guardLog},
	"wal-recycle-early":        {guardLog},
	"wal-forgets-its-size":     {{folder: "internal/storage/wal", test: "TestLog_SegmentsGrowWithTheLogAndStayLarge"}},
	"wal-keeps-used-memory":    {{folder: "internal/storage/store", test: "TestMemoryFS_TheLogTakesWhatItHolds"}},
	"wal-release-in-use":       {{folder: "internal/storage/wal", test: "TestReleaseMemory_KeepsWhatIsInUse"}},
	"wal-progress-not-written": {{folder: "internal/storage/store", test: "TestLog_RandomDamage_IsRefusedOrHarmless"}},

	"heat-unit-or-batch-not-sampled":       {guardHotKey},
	"heat-tasks-not-sampled":               {guardHotKey},
	"heat-streams-weigh-one":               {guardHotKey},
	"heat-client-without-its-name":         {guardHotKey},
	"heat-reads-of-windows-by-bytes-alone": {guardHotKey},
	"heat-never-collected":                 {guardHotKey},
	"heat-program-writes-not-sampled":      {guardHotKeyOfProgram},
	"load-timed-in-a-pattern":              {guardHotKeyOfProgram},
	"load-scans-of-their-first-shard":      {{folder: ".", test: "TestLoad_Scans_CountTheirRows"}},
	"load-rows-of-scans-not-sampled":       {{folder: ".", test: "TestLoad_Scans_CountTheirRows"}},
	"load-conflicts-uncounted":             {{folder: ".", test: "TestLoad_CrossShardAndConflicts_AreCounted"}},
	"load-reads-of-cross-shard-uncounted":  {{folder: ".", test: "TestLoad_CrossShardAndConflicts_AreCounted"}},
	"load-units-never-cross-shard":         {{folder: "internal/server", test: "TestLoad_EveryRequestIsCountedOnceForItsShard"}},
	"heat-evenness-never-judged":           {{folder: "internal/node", test: "TestHeat_LoadBecomesUneven_RaisesAnAlarm"}},
	"hotkeys-counts-when-stopped":          {{folder: "internal/server", test: "TestHotKeys_SampleAndSlots_FindTheHotKeys"}},
	"hotkeys-of-all-slots":                 {{folder: "internal/server", test: "TestHotKeys_SampleAndSlots_FindTheHotKeys"}},
	"hotkeys-sample-of-all":                {{folder: "internal/server", test: "TestHotKeys_SampleAndSlots_FindTheHotKeys"}},
	"live-answers-shared-by-all-tokens":    {{folder: "internal/ops/admin", test: "TestLive_HasTheAuthorityOfItsClient"}},
	"live-evaluates-for-each-stream":       {{folder: "internal/ops/admin", test: "TestLive_EvaluatesOnceASecondForAllStreams"}},
	"hotkeys-of-any-shard":                 {{folder: "internal/ops/admin", test: "TestHotKeys_MisbehavingClient_IsNamed"}},
	"heatmap-hot-key-without-a-row":        {{folder: "internal/ops/admin", test: "TestHeatMap_HotKey_HasARowOfItsOwn"}},
	"heat-edge-over-its-whole-row":         {{folder: "heat", test: "TestMap_AMovingEdgeBetweenOtherKeys_IsSeenWhereItIs"}},
	"heat-pattern-found-twice":             {{folder: "heat", test: "TestFindPatterns_FindsWhatIsThereAndNoMore"}},
	"heat-on-though-off":                   {{folder: ".", test: "TestHeat_Off_ProgramIsNotSampled"}},

	"limit-refuses-none":           {{folder: "internal/shard/admission", test: "TestReserve_QueueIsFull_Refuses"}},
	"limit-turns-not-returned":     {{folder: "internal/shard/admission", test: "TestWait_ContextCancelled_ReturnsItsErrorAndTheTurn"}},
	"limit-prefix-ignored":         {{folder: "internal/shard/admission", test: "TestWriteLimit_Prefix_CoversItInAllSlots"}},
	"limit-never-ends":             {{folder: "internal/shard/admission", test: "TestSet_SameRate_KeepsTurnsAndChangesItsEnd"}},
	"limit-misses-transactions":    {{folder: ".", test: "TestThrottle_ReadOnlyKey_WritersWaitForTheEndOfTheirContext"}},
	"limit-misses-deletes":         {{folder: ".", test: "TestThrottle_ReadOnlyKey_WritersWaitForTheEndOfTheirContext"}},
	"limit-refused-is-executed":    {{folder: "internal/server", test: "TestThrottle_ReadOnlyKey_RefusesItsWritersAlone"}},
	"limit-misses-units":           {{folder: "internal/server", test: "TestThrottle_ReadOnlyKey_RefusesItsWritersAlone"}},
	"cap-forgotten-at-the-start":   {{folder: "internal/node", test: "TestCaps_Reopened_CoverTheSame"}},
	"cap-left-behind":              {{folder: "internal/node", test: "TestCaps_KeyspaceEmptied_StayOnIt"}},
	"throttle-suppresses-splits":   {{folder: "internal/shard/ratekeeper", test: "TestHotShards_NothingToGainOrSomethingBetterToDo_LimitsNone"}},
	"throttle-blind-to-loops":      {{folder: "internal/shard/ratekeeper", test: "TestHotShards_LoopsAreBusy_LimitsTheHotShardOfAnyGroup"}},
	"throttle-for-a-trickle":       {{folder: "internal/shard/ratekeeper", test: "TestHotShards_NothingToGainOrSomethingBetterToDo_LimitsNone"}},
	"throttle-takes-what-is-left":  {{folder: "internal/shard/ratekeeper", test: "TestHotShards_InAModelOfLoops_HotShardHasMostOfWhatOthersLeave"}},
	"throttle-below-half":          {{folder: "internal/shard/ratekeeper", test: "TestHotShards_HeldUpWritesCostMore_KeepsHalfOfTheFirst"}},
	"throttle-counts-held-writers": {{folder: "internal/reshard/balancer", test: "TestSumWaits_ThrottledShard_IsLeftOut"}},
	"throttle-lends-nothing":       {{folder: "internal/shard/ratekeeper", test: "TestHotShards_Throttled_LimitFollowsHowLongOthersWait"}},
	"throttle-harms-others":        {{folder: "internal/shard/ratekeeper", test: "TestHotShards_OthersAreHeldUpToo_EndsAndRestsLonger"}},
	"throttle-without-proof":       {{folder: "internal/shard/ratekeeper", test: "TestHotShards_ThrottleDoesNotHelp_EndsAndRests"}},
	"backoff-ignores-the-time":     {{folder: "hotkey/backoff", test: "TestDo_Refused_NoneAsksBeforeItsTime"}},

	"node-emptied-keyspace-stays-open": {{folder: "internal/node", test: "TestAKeyspaceIsClosedBeforeItIsEmptied"}},
	"node-folded-before-cleared":       {{folder: "internal/node", test: "TestShardsAreFoldedWhenNobodyNeedsThem"}},
	"node-frozen-for-good":             {{folder: "internal/node", test: "TestADestinationThatStandsStillKeepsNoRangeFrozen"}},
	"node-marks-astray":                {{folder: "internal/node", test: "TestFoldingLeavesNoMarksAstray"}},
	"node-noted-in-vain":               {{folder: "internal/node", test: "TestAKeyspaceThatAFailedStoreWouldGiveWayToIsRefused"}},
	"node-pin-stays-behind":            {{folder: ".", test: "TestAPinFollowsItsKeyToAnotherStore"}},
	"node-prepare-not-synced":          {{folder: ".", test: "TestATransactionAcrossStoresIsWholeAfterACrash"}},
	"node-source-not-synced":           {{folder: ".", test: "TestACopyHasNothingThatACrashTakesBackAtItsSource"}},
	"node-later-map-given":             {{folder: ".", test: "TestJobsSurviveACrashAtEachPhase"}},
	"node-view-ignores-decisions":      {{folder: ".", test: "TestTransfersAcrossGroupsAreSeenWhole"}},
	"node-scan-misses-the-last-lock":   {{folder: "internal/node", test: "TestAKeyThatEndsAScanIsReadThroughItsLock"}},
	"store-backups-one-by-one":         {{folder: ".", test: "TestABackupUnderLoadIsConsistent"}},
	"store-snapshots-one-by-one":       {{folder: "internal/storage/store", test: "TestSnapshotsOfSeveralStoresAreOfOneMoment"}},

	"serve-unit-half-executed":                  {{folder: "internal/server", test: "TestAUnitOfOneGroupMeetsTransactionsAndMoves"}},
	"serve-cold-reads-overtake":                 {{folder: "internal/server", test: "TestAColdReadThatIsNotTheNewestIsMadeAgain"}},
	"serve-backlog-of-an-emptied-keyspace":      {{folder: "internal/server", test: "TestAPipelineGoesOnInAnEmptiedKeyspace"}},
	"serve-recycles-what-is-under-way":          {{folder: "internal/server", test: "TestMemoryOfWhatIsUnderWayIsNotUsedAgain"}},
	"distributor-never-held":                    {{folder: "internal/reshard/distributor", test: "TestPlanner_WhatDidNotHelp_IsHeld"}},
	"distributor-moves-too-much":                {{folder: "internal/reshard/distributor", test: "TestPlanner_AnyLoad_Ends"}},
	"distributor-splits-an-edge-for-ever":       {{folder: "internal/reshard/distributor", test: "TestPlanner_EdgeWithReads_IsNotSplitForEver"}},
	"distributor-halves-behind-an-edge":         {{folder: "internal/reshard/distributor", test: "TestPlanner_MovingEdge_LeavesFullShardsBehind"}},
	"distributor-acts-before-the-edge-is-known": {{folder: "internal/reshard/distributor", test: "TestPlanner_NewlyBusyShard_IsLeftAloneUntilItsEdgeIsKnown"}},
	"distributor-merges-splits-of-others":       {{folder: "internal/reshard/distributor", test: "TestPlanner_SplitsOfOthers_AreKept"}},

	"distributor-pieces-forgotten":          {{folder: "internal/reshard/distributor", test: "TestPlanner_ResumedWithPieces_MergesBack"}},
	"distributor-does-not-settle":           {{folder: "internal/reshard/distributor", test: "TestPlanner_AfterAChange_Settles"}},
	"distributor-moves-to-a-draining-group": {{folder: "internal/reshard/distributor", test: "TestPlanner_DrainingGroup_GetsNothing"}},
	"distributor-copies-for-nothing":        {{folder: "internal/reshard/distributor", test: "TestPlanner_LargeShard_IsMovedIfItPays"}},
	"distributor-moves-what-is-fixed":       {{folder: "internal/reshard/distributor", test: "TestPlanner_FixedShard_Stays"}},
	"distributor-moves-on-at-once":          {{folder: "internal/reshard/distributor", test: "TestPlanner_MovedShard_StaysForItsResidence"}},
	"distributor-one-key-unnamed":           {{folder: "internal/reshard/distributor", test: "TestPlanner_OneKey_IsNamed"}},
	"distributor-held-key-unnamed":          {{folder: "internal/reshard/distributor", test: "TestPlanner_HeldGroup_NamesItsHotKey"}},
	"distributor-merges-across-keyspaces":   {{folder: "internal/reshard/distributor", test: "TestPlanner_PiecesOfTwoKeyspaces_AreNotMerged"}},
	"classify-contention-missed":            {{folder: "internal/reshard/classify", test: "TestClassify_TracesOfKnownTruth"}},
	"classify-edge-missed":                  {{folder: "internal/reshard/classify", test: "TestClassify_TracesOfKnownTruth"}},
	"classify-key-without-its-error":        {{folder: "internal/reshard/classify", test: "TestClassify_KeyWhoseShareIsUnsure_IsNotNamed"}},
	"classify-cold-though-young":            {{folder: "internal/reshard/classify", test: "TestClassify_TracesOfKnownTruth"}},
	"classify-idle-is-hot":                  {{folder: "internal/reshard/classify", test: "TestClassify_LittleLoad_IsNotHot"}},
	"classify-lead-of-a-machine-missed":     {{folder: "internal/reshard/classify", test: "TestClassify_TracesOfKnownTruth"}},
	"heat-hot-key-not-cut-out":              {{folder: "heat", test: "TestRanges_Cuts_SharesAreThoseOfTheLoad"}},
	"heat-cuts-count-their-key":             {{folder: "heat", test: "TestRanges_Cuts_SharesAreThoseOfTheLoad"}},
	"heat-edge-of-hot-keys":                 {{folder: "heat", test: "TestRanges_Edge_TellsOrderOfTimeFromOtherLoads"}},
	"heat-edge-behind-all-keys-alone":       {{folder: "heat", test: "TestRanges_Edge_TellsOrderOfTimeFromOtherLoads"}},
	"balancer-pieces-forgotten":             {{folder: "internal/reshard/balancer", test: "TestBalancer_Restart_KeepsPieces"}},
	"balancer-accepted-is-split":            {{folder: "internal/reshard/balancer", test: "TestBalancer_AcceptedShard_IsLeftAlone"}},
	"balancer-manual-acts":                  {{folder: "internal/reshard/balancer", test: "TestBalancer_Manual_ProposesOnly"}},
	"balancer-judged-at-once":               {{folder: "internal/reshard/balancer", test: "TestBalancer_Move_HasTheVerdictOfThePlanner"}},
	"balancer-all-moves-help":               {{folder: "internal/reshard/balancer", test: "TestBalancer_Move_HasTheVerdictOfThePlanner"}},
	"balancer-flap-is-decided-again":        {{folder: "internal/reshard/balancer", test: "TestBalancer_ClassThatFlaps_HasBoundedDecisions"}},
	"balancer-edge-is-decided-again":        {{folder: "internal/reshard/balancer", test: "TestBalancer_EdgeInNewShard_IsTheSameDecision"}},
	"balancer-edge-never-leaves":            {{folder: "internal/reshard/balancer", test: "TestBalancer_EdgeThatHasMovedOn_IsForgotten"}},
	"balancer-kept-written-each-second":     {{folder: "internal/reshard/balancer", test: "TestBalancer_SameKeep_IsWrittenOnceAMinute"}},
	"balancer-decision-not-kept":            {{folder: "internal/reshard/balancer", test: "TestBalancer_Restart_KeepsWhatWasDecided"}},
	"balancer-knobs-set-half":               {{folder: "internal/reshard/balancer", test: "TestBalancer_SetKnobs_OneIsBad_ChangesNone"}},
	"balancer-knobs-forgotten":              {{folder: "internal/reshard/balancer", test: "TestBalancer_Restart_KeepsWhatWasDecided"}},
	"balancer-critical-is-accepted":         {{folder: "internal/reshard/balancer", test: "TestBalancer_Accept_RefusesWhatIsCriticalOrHasNoEnd"}},
	"balancer-edge-not-inherited":           {{folder: "internal/reshard/balancer", test: "TestBalancer_SplitOfAMovingEdge_RightPieceHasIt"}},
	"balancer-overhead-not-shared":          {{folder: "internal/reshard/balancer", test: "TestBalancer_Overhead_IsSharedByOperations"}},

	"conn-mail-of-a-moved-client-is-lost": {{folder: "internal/server", test: "TestLoops_ClientsThatAreMoved_LoseNothing"}},
	"conn-loops-take-what-the-load-needs": {{folder: "internal/server/conn", test: "TestLoopPlanner_UsesAsManyLoopsAsTheLoadNeeds"}},
	"serve-staged-by-two-maps":            {{folder: "internal/server", test: "TestRound_WhileItsKeyMoves_KeepsTheOrderOfItsRequests"}},
	"serve-replies-overtake":              {{folder: "internal/server", test: "TestRound_WhereOneStoreRefuses_IsAnsweredInOrder"}},
	"serve-refused-comes-last":            {{folder: "internal/server", test: "TestAWorkerWaitsForNoField"}},
	"serve-cold-staged":                   {{folder: "internal/server", test: "TestAGroupGetsWhatItKnowsTheRowsOf"}},
	"serve-cold-though-revoked":           {{folder: "internal/server", test: "TestWhatWasAllowedIsNotDoneWhenItIsNoLonger"}},
	"serve-reads-in-turn":                 {{folder: "internal/server", test: "TestAReadByItselfTakesNoTurn"}},
	"serve-cold-unit-staged":              {{folder: "internal/server", test: "TestAGroupGetsSeveralKeysWhenItKnowsTheirRows"}},
	"load-cold-reads-uncounted":           {{folder: "internal/server", test: "TestLoad_EveryRequestIsCountedOnceForItsShard"}},
	"load-unit-keys-of-first-shard":       {{folder: "internal/server", test: "TestLoad_EveryRequestIsCountedOnceForItsShard"}},
	"load-gone-shards-dropped":            {{folder: "internal/shard/load", test: "TestMeter_ManyShardsGone_AddsUpTheirCounts"}},
	"load-commit-uncounted":               {{folder: ".", test: "TestLoad_EachCallIsCountedOnce"}},

	"watch-coalescing-reorders":       {{"watch", "TestWhatIsBehindThePlaceOfAnEventMakesUpForWhatWasNotTold", quietFlags}, guardSim},
	"watch-cursor-ahead":              {{"watch", "TestWhatIsBehindThePlaceOfAnEventMakesUpForWhatWasNotTold", quietFlags}, guardSim},
	"watch-joins-ahead":               {{"watch", "TestAWatcherEndsWithWhatTheStoreHas", quietFlags}, guardSim},
	"watch-joins-behind":              {{"watch", "TestAPlaceAheadOfTheHubIsNotToldAgain", nil}, guardSim},
	"watch-joins-twice":               {{"watch", "TestWhoKnowsMoreThanTheHubAndLessIsToldNothingTwice", nil}},
	"watch-pages-not-aligned":         {{"watch", "TestRowsOfOnePageChangeWhileTheNextIsRead", nil}},
	"watch-reads-before-it-registers": {{"watch", "TestUntilMissesNothing", nil}},

	"rows-stale-fill":           {guardRows},
	"rows-pinned-evicted":       {guardRows},
	"rows-whole-after-eviction": {guardRows},
	"rows-gathered-in-part":     {guardRows},
	"rows-held-evicted":         {guardRows, {folder: ".", test: "TestPinnedRowsAreReadFromMemoryWhateverElseIsRead"}},
	"rows-pin-keeps-old":        {guardRows, guardSim, {folder: ".", test: "TestPinnedKeysAreReadAsTheyAre"}},
	"rows-admit-all":            {{folder: "internal/storage/rowcache", test: "TestReadsThatComeOnceDoNotDriveOutHotRows"}},
	"rows-batch-torn":           {{folder: ".", test: "TestATransactionAppearsAtOnceToSingleReads"}},
	"rows-release-in-use":       {{folder: "internal/storage/rowcache", test: "TestReclaimFree_KeepsTheRowsThatAreLeft"}},

	"cache-stale-put":         {{folder: "cache", test: "TestNoAnswerIsOlderThanAnInvalidationOrATTL"}},
	"cache-two-loads":         {{folder: "cache", test: "TestNoAnswerIsOlderThanAnInvalidationOrATTL"}},
	"cache-gap-without-flush": {{folder: "cache/storecache", test: "TestWhoWaitsForTheFeedReadsWhatHeWrote"}, guardSim},

	"command-overlay-skipped": {guardEdges, guardCommands},
	"command-expired-visible": {guardEdges, guardCommands},

	"store-memory-file-freed-early":     {{folder: "internal/storage/store", test: "TestMemoryFS_ZerosTakeNoMemoryAndFilesGiveTheirsBack"}},
	"store-memory-file-keeps-old-bytes": {{folder: "internal/storage/store", test: "TestMemoryFS_IsAFileSystem"}},
	"store-fill-stale":                  {{folder: "internal/storage/store", test: "TestASlowReadDoesNotBringBackAnOldRow"}},
	"store-all-wait-for-the-disk":       {{folder: "internal/storage/store", test: "TestFewWaitForADisk"}},
	"store-crashes-pile-up":             {{folder: "internal/storage/store", test: "TestCrashesDoNotPileUp"}},
	"store-near-waits":                  {{folder: "internal/storage/store", test: "TestWhoMustNotWaitForADiskDoesSoOnce"}},
	"store-publish-before-durable":      {{folder: "internal/storage/store", test: "TestNothingIsVisibleBeforeItIsDurable"}},
	"store-recycle-applied-not-durable": {{folder: "internal/storage/store", test: "TestTheLogIsKeptUntilPebbleHasItForSure"}},

	"txn-read-locks-not-taken":       {guardTxns, guardSimContention},
	"txn-write-ignores-read-locks":   {guardTxns, guardSimContention},
	"txn-validation-ignores-intents": {guardTxns, guardSimContention},
	"txn-digest-by-newest-version":   {guardTxns, guardSimContention},
	"txn-mark-forgotten":             {guardTxns, guardSimContention},
	"txn-marks-not-loaded":           {{"internal/shard/txn", "TestAPieceThatIsResolvedStaysSo", quietFlags}, guardTxns},
	"txn-decisions-not-loaded":       {guardTxns},
	"txn-decide-past-deadline":       {guardTxns},
	"txn-inquiry-overrules":          {guardTxns},
	"txn-abort-not-recorded":         {guardTxns, guardSimContention},
	"txn-decision-not-kept":          {guardTxns, guardSimContention},
	"txn-locks-not-taken-back":       {guardTxns},
	"txn-prepare-past-deadline":      {{"internal/shard/txn", "TestAFinishedPartStaysFinished", quietFlags}},
	"txn-collect-unconfirmed":        {{"internal/shard/txn", "TestADecisionIsKeptUntilNobodyAsks", quietFlags}},
	"txn-mark-at-start-only":         {{"internal/shard/txn", "TestAPieceThatIsResolvedStaysSo", quietFlags}, guardSimContention},
	"txn-old-owner-confirms":         {{"internal/shard/txn", "TestOnlyTheOwnerConfirms", quietFlags}},
	"txn-range-lock-not-cut":         {{"internal/shard/txn", "TestARangeLockIsCutWithItsRange", quietFlags}, guardSimRounds},
	"group-range-lock-not-carried":   {{folder: "internal/node", test: "TestALockOnARangeStaysWhenAShardOfItMoves"}, guardSimRounds},
	"txn-locked-rows-expire":         {{"internal/shard/txn", "TestARowDoesNotExpireUnderALock", quietFlags}},
	"txn-holds-overtaken":            {{"internal/shard/txn", "TestHoldsAreGrantedInTheOrderOfAsking", quietFlags}, guardSimContention},
	"group-write-passed-by":          {{".", "TestAPlainWriteHasItsTurnAmongTransactions", quietFlags}},

	"mover-activate-before-release":   {guardMoves, guardSim},
	"mover-source-reads-on":           {guardMoves, guardSim},
	"mover-deletes-skipped":           {guardMoves, guardSim},
	"mover-old-attempt-ingested":      {guardMoves, guardSim},
	"mover-decided-after-rollback":    {{folder: "internal/reshard/mover", test: "TestADecisionIsMadeOnceAndOnlyInItsPlace"}},
	"mover-drop-before-activate":      {guardMoves, guardSim},
	"mover-dedup-not-copied":          {guardMoves},
	"mover-drain-leaves-a-shard":      {guardMoves, guardSim},
	"mover-freeze-not-stored":         {guardMoves, guardSim},
	"mover-thaw-not-stored":           {{folder: "internal/reshard/mover", test: "TestARangeThatIsThawedIsNotDecided"}},
	"mover-late-clear":                {guardMoves, guardSim},
	"mover-late-freeze":               {{folder: "internal/reshard/mover", test: "TestAFreezeThatComesAfterItsThawChangesNothing"}, guardSim},
	"mover-late-prepare":              {guardMoves},
	"mover-floors-forgotten":          {guardMoves, guardSim},
	"mover-second-job":                {guardMoves, guardSim},
	"mover-group-removed-under-a-job": {{folder: "internal/reshard/mover", test: "TestAGroupIsNotRemovedWhileAJobNeedsIt"}, guardSim},
	"mover-unmarks-for-others":        {guardMoves},

	"own-gap-between-chunks":    {{folder: "internal/shard/ownership", test: "TestWhatIsNotServedAmongManyIsNotRead"}},
	"own-joined-before-the-end": {guardMoves},
	"own-joined-as-older":       {{folder: "internal/reshard/mover", test: "TestALateCopyFindsThatRangesWereJoined"}},

	"feed-tells-copies":    {guardFeed, guardSim},
	"feed-new-owner-first": {guardFeed, guardSim},
	"feed-place-ahead":     {{folder: "internal/reshard/feed", test: "TestWhatWasNotToldComesAgain"}, guardSim},

	"counter-add-to-closed-part":     {guardCounter},
	"counter-sum-piece-by-piece":     {guardCounter},
	"counter-fold-drops-a-part":      {{"internal/patterns/splitcount", "TestAResizeKeepsTheSum", quietFlags}, guardCounterRetries, guardSimCounters},
	"counter-once-follows-the-count": {guardCounterRetries},
	"counter-fast-looks-younger":     {{folder: "counter", test: "TestWhatIsTooOldIsReadAgain"}},

	"saga-doubt-ignored":             {guardSagas, guardSimSagas},
	"saga-undo-skips":                {guardSagas, guardSimSagas},
	"saga-cancel-lost":               {guardSagas},
	"saga-owner-ignored":             {{folder: "saga", test: "TestOneRunnerAtATimeWorksOnASaga"}},
	"saga-wake-lost":                 {{folder: "saga", test: "TestARetryThatComesAsTheSagaGetsStuckIsNotLost"}},
	"saga-effect-before-journal":     {{folder: "saga/journal", test: "TestASagaThatCrashesAnywhereEndsWholeOrUndone"}},
	"journal-marks-ignored":          {{folder: "saga/journal", test: "TestASagaOnAStoreThatCrashesAnywhereEndsWholeOrUndone"}},
	"journal-step-apart":             {{folder: "saga/journal", test: "TestARunnerThatWasOvertakenChangesNothing"}},
	"journal-any-revision":           {{folder: "saga/journal", test: "TestAJournalOnAStoreIsAJournal"}},
	"queue-new-epoch-first":          {{"internal/patterns/delivery", "TestOfAPointTheOldestBucketIsReady", quietFlags}, guardQueue, guardSimQueues},
	"queue-key-out-twice":            {{"internal/patterns/delivery", "TestOfAKeyTheOldestIsNext", quietFlags}, guardQueue, guardSimQueues},
	"queue-late-ack":                 {{"internal/patterns/delivery", "TestALeaseIsMineUntilAnotherHasIt", nil}, guardQueue},
	"queue-publish-to-closed-bucket": {guardQueue},
	"queue-id-of-one-epoch":          {guardQueue},
	"queue-old-id-taken":             {guardQueue},
	"queue-head-runs-ahead":          {guardQueue},
	"queue-manifest-goes-back":       {{folder: "queue", test: "TestAManifestThatWasReadLateIsNotBelieved"}},
	"queue-revival-fails-others":     {{folder: "queue", test: "TestARevivalThatComesTooLateFailsNobodyElse"}},
	"queue-trimmed-untold":           {{folder: "queue", test: "TestAReaderIsToldOfEntriesThatWentWithTheirShard"}},
	"queue-claim-unchecked":          {{folder: "queue", test: "TestAClaimReadsAgainWhatItHasSeen"}},

	"node-index-gate-missing":           {{folder: ".", test: "TestAWriteThatBeganBeforeAnIndexMaintainsIt"}},
	"node-index-barrier-missing":        {{folder: ".", test: "TestAnIndexMissesNoRowThatWasOnItsWay"}},
	"node-decided-not-settled":          {{folder: ".", test: "TestAnIndexThatFollowsHasWhatATransactionAcrossStoresWrote"}},
	"cleave-expires-between-own-writes": {{folder: ".", test: "TestATransactionIsToldWhatComesOfKeysThatExpire"}},
	"cleave-index-entry-not-in-commit":  {{folder: ".", test: "TestATransactionReadsAnIndexWithItsOwnWrites"}},
	"index-old-entry-left":              {{folder: ".", test: "TestATransactionReadsAnIndexWithItsOwnWrites"}, guardSim},
	"cleave-index-verify-one-clock":     {{folder: ".", test: "TestAnIndexThatFollowsIsWellWhileClocksDiffer"}},
	"cleave-index-cursor-apart":         {{folder: "internal/engine", test: "TestAnIndexThatFollowsSkipsNothingOverARestart"}},

	"drive-some-changes-taken-for-all": {{folder: "internal/reshard/protocol", test: "TestADestinationBecomesItsSourceWhoeverBringsWhatWhen"}},
	"store-follow-knows-before":        {{folder: "internal/reshard/protocol", test: "TestADestinationBecomesItsSourceWhoeverBringsWhatWhen"}, guardSim},
	"store-change-stays-where-it-was":  {{folder: "internal/reshard/protocol", test: "TestADestinationBecomesItsSourceWhoeverBringsWhatWhen"}, guardSim},
	"drive-placed-over-a-job":          {{folder: ".", test: "TestKeyspacesAreMadeWhileTheirPlaceMoves"}},
	"drive-removed-decider-awaited":    {{folder: "internal/reshard/protocol", test: "TestAGroupIsRemovedIfTheMapHadIt"}},
	"group-trace-lost":                 {{folder: "internal/shard/group", test: "TestAKeyThatWasLockedInASnapshotIsNamed"}},
	"group-joint-not-taken-back":       {{folder: "internal/shard/group", test: "TestJointRequestsOfOneBatchShareAWriteAndFailAlone"}},
	"group-record-in-batch-unseen":     {{folder: "internal/shard/group", test: "TestARequestAndATransactionOfItInOneBatchAreOne"}, {folder: "internal/shard/group", test: "TestAJointRequestAndATransactionOfItInOneBatchAreOne"}},
	"group-chain-of-one-group":         {{folder: "internal/shard/group", test: "TestAChainStopsInAllGroups"}},
	"group-floor-not-kept":             {{folder: "internal/shard/group", test: "TestVersionsStayAboveARangeThatCame"}},
	"group-versions-not-renewed":       {{folder: "internal/shard/group", test: "TestABatchGivesOutWhatIsReserved"}},
	"group-ledger-left-out":            {{folder: "internal/shard/group", test: "TestVersionsStayAboveARangeThatCame"}},
	"group-clock-ceiling-kept":         {guardVersions},
	"group-still-though-expired":       {{folder: "internal/shard/group", test: "TestARowThatHasExpiredIsNotStillThere"}},
	"group-many-judged-by-one":         {{folder: "internal/shard/group", test: "TestRowBuffer_RowsOfSeveralGroups_AreJudgedByTheirOwn"}},
	"group-many-judged-alone":          {{folder: "internal/shard/group", test: "TestWhatATransactionHasSeenAliveDoesNotExpireBefore"}},
	"group-peek-of-two-moments":        {{folder: "internal/shard/group", test: "TestAFieldThatIsDeletedAsItIsWrittenIsNeverRead"}, {folder: "internal/shard/group", test: "TestAFieldThatIsReplacedWithItsHashIsNeverAbsent"}},
	"group-peek-locked-meanwhile":      {{folder: "internal/shard/group", test: "TestWhatATransactionHasSeenAliveDoesNotExpireBefore"}},
	"version-repeated":                 {guardVersions, guardHistory, guardSim},
	"clock-back":                       {guardVersions, guardHistory, guardSim},
	"dedup-lost":                       {guardRetries, guardHistory, guardSim},

	"heat-evicts-any":                     {{"heat", "TestTopKeys_CountsAreWithinTheirBounds", quietFlags}, {"hotkey", "TestFrequentKeysAreTrackedAmongAnyNumberOfOthers", quietFlags}},
	"heat-merge-forgets-floor":            {{"heat", "TestTopKeys_CountsAreWithinTheirBounds", quietFlags}},
	"heat-scale-keeps-counts":             {{"hotkey", "TestReportsAreThoseOfAllSamplesAsLongAsKeysFit", quietFlags}, {"heat", "TestTopKeys_CountsAreWithinTheirBounds", quietFlags}},
	"heat-merge-forgets-left-out":         {{"heat", "TestRanges_MergedIntoALargerOneTheyCountAsMuch", quietFlags}},
	"heat-large-counts-like-small":        {{"heat", "TestMeter_SampleStandsForAll", quietFlags}},
	"advisor-record-cut-in-two":           {{folder: "advisor/csvfile", test: "TestReader_CutsNoRecordInTwo"}},
	"advisor-lines-begin-anew":            {{folder: "advisor/csvfile", test: "TestReader_CutsNoRecordInTwo"}},
	"advisor-left-out-not-counted":        {{folder: "advisor/internal/sketch", test: "TestBlock_CountsAreThoseOfTheStream"}},
	"advisor-always-still-right":          {{folder: "advisor", test: "TestCompare_NamesWhatHasMoved"}},
	"advisor-salt-keeps-together":         {{folder: "advisor", test: "TestAnalyze_FindsWhatIsDecidedTogether"}},
	"advisor-large-tenant-gets-one-shard": {{folder: "advisor", test: "TestAnalyze_NamesTenantsThatNeedAPlace"}},
	"advisor-or-counts-as-and":            {{folder: "advisor/internal/sqlquery", test: "TestRead_FindsWhatIsAsked"}},
	"advisor-unseen-edge-has-a-grade":     {{folder: "advisor", test: "TestAnalyze_FewRowsOfACounter_NeverMakeItGood"}},
	"traffic-dear-shown-more-often":       {{folder: "internal/node", test: "TestTraffic_Readers_SeeTheSampleInOrder"}},
	"traffic-kept-for-nobody":             {{folder: "internal/node", test: "TestTraffic_Readers_SeeTheSampleInOrder"}},
	"postgreslog-bind-counts":             {{folder: "advisor/postgreslog", test: "TestRead_CSVLog_HasStatementsWithValuesAndTransactions"}},

	"heat-map-outgrows-its-cap":      {{"heat", "TestMap_TakesNoMoreThanItMay", quietFlags}},
	"heat-young-shard-is-cold":       {{"heat", "TestShardRates_AreTheIntegralOverTheWindow", quietFlags}},
	"hotkey-one-sample-is-enough":    {{"hotkey", "TestReportsAreThoseOfAllSamplesAsLongAsKeysFit", quietFlags}},
	"key-fanout-misses-a-salt":       {{"key", "TestFanOutHoldsExactlyTheKeysThatStartLikeThat", quietFlags}, guardSim},
	"key-hash-not-checked":           {{"key", "TestLayoutScripts", quietFlags}},
	"fanout-one-after-another":       {{folder: "key/fanout", test: "TestRead_120Partitions_TakeAsLongAsOne"}},
	"engine-pages-of-many-moments":   {{folder: ".", test: "TestScanPages_OfAView_AreOfOneMomentWhileOthersWrite"}},
	"copies-one-by-one":              {{folder: "copies", test: "TestGet_AfterANewerValueWasRead_NeverReturnsAnOlder"}},
	"copies-old-ones-stay":           {{"copies", "TestValues_OfAnyNumberOfCopies_AreOneValue", quietFlags}},
	"table-drops-what-has-not-ended": {{"table", "TestDropBefore_DropsTheBucketsThatHaveEnded", quietFlags}},
	"table-salts-not-merged":         {guardTable},
	"table-cursor-drops-twins":       {guardTable},
	"table-put-does-not-look":        {guardTable},
	"table-pages-of-many-moments":    {{folder: "table", test: "TestOrderedReadsAreOfOneMomentWhileShardsMove"}},
	"table-last-never-gives-up":      {{"table", "TestTheLastRowsAreThoseOfAWalkOverAllBuckets", quietFlags}},
}

// knownSeeds are of worlds in which the simulator has caught a bug that takes it long to find. They
// are tried first, and say nothing about worlds of later code: then it searches.
var knownSeeds = map[string]int{
	"group-range-lock-not-carried": 8,
	"txn-range-lock-not-cut":       8,
	"index-old-entry-left":         19,
	"mover-drain-leaves-a-shard":   22,
	"watch-cursor-ahead":           40,
}

// A harness that never caught a bug proves nothing: with each bug its guards
// fail, and without one they pass.
func TestPlantedBugsAreCaught(t *testing.T) {
	bugs := slices.Sorted(maps.Keys(mutants))
	tree := openTree(t)
	found := findMutants(t, tree)
	if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, bugs) {
		t.Fatalf("the patches have the mutants %q, this test has guards for %q", names, bugs)
	}
	if testing.Short() {
		t.Skip("builds test binaries: make mutants")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool to build with")
	}
	if list := os.Getenv(foldersVariable); list != "" {
		bugs = slices.DeleteFunc(bugs, func(bug string) bool { return !isNear(bug, found[bug], strings.Split(list, ",")) })
	}
	if len(bugs) == 0 {
		t.Skip("no mutant is in these folders, and no test that catches one")
	}
	bin := buildGuards(t, goTool, tree, bugs)
	var tasks []guardTask
	seen := map[string]bool{}
	for _, bug := range bugs {
		for _, g := range mutants[bug] {
			if key := g.folder + g.test; !seen[key] {
				seen[key] = true
				tasks = append(tasks, guardTask{g, ""})
			}
			tasks = append(tasks, guardTask{g, bug})
		}
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.NumCPU()+1) // some wait for what will not come
	for _, task := range tasks {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			task.checkGuard(t, bin)
		})
	}
	wg.Wait()
	if !t.Failed() {
		tally.Add(t, "planted bugs caught", len(bugs))
	}
}

// foldersVariable is the environment variable with the folders whose mutants are planted,
// separated by commas. Without it all are.
const foldersVariable = "CLEAVE_MUTANTS"

// isNear reports whether a bug is planted in one of the folders, or caught by a test in one.
func isNear(bug string, plantedIn map[string]bool, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return plantedIn[folder] || slices.ContainsFunc(mutants[bug], func(g guard) bool { return g.folder == folder })
	})
}

// buildGuards builds the tests of all folders with guards of the bugs, once with all mutants, and returns
// where they are. The compiler reads copies of the files that have mutants, with all patches applied.
func buildGuards(t *testing.T, goTool string, tree *Tree, bugs []string) string {
	bin := t.TempDir()
	folders := map[string]bool{}
	for _, bug := range bugs {
		for _, g := range mutants[bug] {
			folders["./"+g.folder] = true
		}
	}
	args := []string{"test", "-c", "-vet=off", "-overlay", writeOverlay(t, tree), "-ldflags", "-s -w", "-o", bin + string(filepath.Separator)}
	build := exec.Command(goTool, append(args, slices.Sorted(maps.Keys(folders))...)...)
	build.Dir = moduleRoot
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("build the guards: %v\n%s", err, out)
	}
	return bin
}

// writeOverlay writes the files that have patches with their mutants, and returns the file that tells the go
// command to read these instead.
func writeOverlay(t *testing.T, tree *Tree) string {
	folder := t.TempDir()
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for source := range tree.Patches {
		text, err := tree.Mutated(source)
		if err != nil {
			t.Fatal(err)
		}
		original, err := filepath.Abs(tree.path(source))
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(folder, strings.ReplaceAll(source, "/", "_"))
		overlay.Replace[original] = copied
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// guardTask is a guard that runs with a bug, or with none.
type guardTask struct {
	guard
	mutant string
}

// maxTries is how often a guard may run until it catches a bug. Most draw what they do at random,
// and those that catch a rare one in nearly every run do not in each.
const maxTries = 3

func (k guardTask) checkGuard(t *testing.T, bin string) {
	defer func(begun time.Time) {
		t.Logf("%6.2f s %s of %s with %q", time.Since(begun).Seconds(), k.test, k.folder, k.mutant)
	}(time.Now())
	if seed := knownSeeds[k.mutant]; seed > 0 && k.folder == "internal/testkit/sim" {
		if out, err := k.runTest(bin, k.mutant, fmt.Sprint("CLEAVE_SEED=", seed)); isCaught(out, err) {
			return
		}
	}
	out, err := k.runTest(bin, k.mutant)
	if k.mutant == "" {
		if err != nil {
			t.Errorf("%s of %s fails without a bug: %v\n%s", k.test, k.folder, err, out)
		}
		return
	}
	for try := 1; try < maxTries && !isCaught(out, err); try++ {
		out, err = k.runTest(bin, k.mutant)
	}
	if !isCaught(out, err) {
		t.Errorf("%s is not caught by %s of %s in %d runs: %v\n%s", k.mutant, k.test, k.folder, maxTries, err, out)
	}
}

// isCaught reports whether a guard has failed, as opposed to not having run. A guard that hangs
// with a bug, and not without it, has noticed it too.
func isCaught(out string, err error) bool {
	return err != nil && (strings.Contains(out, "FAIL") || strings.Contains(out, "panic: test timed out"))
}

// runTest runs the guard in a process of its own: a bug is chosen when it starts.
func (g guard) runTest(bin, bug string, env ...string) (output string, err error) {
	args := []string{"-test.run=^" + g.test + "$", "-test.timeout=60s"}
	if bug == "" {
		args = append(args, "-test.short")
	} else {
		args = append(args, g.flags...)
	}
	name := filepath.Base(g.folder)
	if g.folder == "." {
		name = "cleave"
	}
	c := exec.Command(filepath.Join(bin, name+".test"), args...)
	c.Dir = filepath.Join(moduleRoot, g.folder)
	c.Env = append(append(os.Environ(), "CLEAVE_PLANT="+bug, "CLEAVE_SOAK=", tally.FileVariable+"="), env...)
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "no tests to run") {
		return string(out), fmt.Errorf("there is no %s", g.test)
	}
	return string(out), err
}

// openTree reads the patches of this module.
func openTree(t *testing.T) *Tree {
	tree, err := OpenTree(moduleRoot)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// findMutants finds the names of all mutants, with the folders of the files that they change. Most are
// in patches, those that are being edited in the code.
func findMutants(t *testing.T, tree *Tree) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	add := func(name, source string) {
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		found[name][folderOf(source)] = true
	}
	for source, p := range tree.Patches {
		for _, name := range p.Mutants() {
			add(name, source)
		}
	}
	mutated, err := tree.ListMutated()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range mutated {
		text, err := os.ReadFile(tree.path(source))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mutantPattern.FindAllSubmatch(text, -1) {
			add(string(m[1]), source)
		}
	}
	return found
}
