//! The guards of the protocol, one by one. A mutant is the model without one of them.

/// One guard that can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    HotRowEpoch,
    LostOnlyByEpoch,
    PollInOneStatement,
    DuplicatesTakeTheSaleRow,
    ReleaseComparesHolder,
    ReleaseComparesGate,
    ReleaseNeedsStock,
    ReleaseNeedsHash,
    CommitBeforeAck,
    CountReturnedRows,
    NotReturnedIsLookedAt,
    FailedReleaseNeedsRow,
    HolderBeforeStock,
    AdmitComparesRunId,
    RunIdOfTheServer,
    LoadStaysClosed,
    OpenNeedsClaim,
    LoadNeedsClaim,
    CloseNeedsClaim,
    BumpFromSeen,
    Drain,
    Close,
    Sum,
    StreamIsNotRecreated,
    AckAndDeleteTogether,
    SettleComparesOrder,
    NamesWithEntriesStay,
    RetryKeepsEpoch,
    RetryInTheTransaction,
    DiscardReleaseNeedsRow,
    BuryWritesNoRow,
    EarlySweep,
    EarlyRefundedInTheEnd,
    KnownPaymentIsLeftAlone,
    LateMoneyGoesBack,
    RefundKey,
    CancelCondition,
    RefundEndCondition,
    OneLiveOrder,
    BlocksRegistered,
    KnownIdIsCompared,
    PauseIsAFieldOfItsOwn,
    StockChangeIsARebuild,
    BurntNumber,
    NumberFromSqlAlone,
    EpochFromSql,
    ReadUnderLock,
    LostWithoutRelease,
    DuplicateHasTicket,
    AdmitComparesEpoch,
    RefundedIsLive,
    ReleaseAfterCommit,
    LoadDropsOldHolders,
    OtherSalesOfTheLaneClose,
    FreshLookBeforeRebuild,
    UncertainIdsAreKept,
    BlocksEndAtMidnight,
    OnlyEpochZeroSkipsTheDrain,
    HolderEpochFromSql,
}

impl Guard {
    /// Every guard.
    #[expect(dead_code, reason = "the table follows")]
    pub const ALL: [Self; 59] = [
        Self::HotRowEpoch,
        Self::LostOnlyByEpoch,
        Self::PollInOneStatement,
        Self::DuplicatesTakeTheSaleRow,
        Self::ReleaseComparesHolder,
        Self::ReleaseComparesGate,
        Self::ReleaseNeedsStock,
        Self::ReleaseNeedsHash,
        Self::CommitBeforeAck,
        Self::CountReturnedRows,
        Self::NotReturnedIsLookedAt,
        Self::FailedReleaseNeedsRow,
        Self::HolderBeforeStock,
        Self::AdmitComparesRunId,
        Self::RunIdOfTheServer,
        Self::LoadStaysClosed,
        Self::OpenNeedsClaim,
        Self::LoadNeedsClaim,
        Self::CloseNeedsClaim,
        Self::BumpFromSeen,
        Self::Drain,
        Self::Close,
        Self::Sum,
        Self::StreamIsNotRecreated,
        Self::AckAndDeleteTogether,
        Self::SettleComparesOrder,
        Self::NamesWithEntriesStay,
        Self::RetryKeepsEpoch,
        Self::RetryInTheTransaction,
        Self::DiscardReleaseNeedsRow,
        Self::BuryWritesNoRow,
        Self::EarlySweep,
        Self::EarlyRefundedInTheEnd,
        Self::KnownPaymentIsLeftAlone,
        Self::LateMoneyGoesBack,
        Self::RefundKey,
        Self::CancelCondition,
        Self::RefundEndCondition,
        Self::OneLiveOrder,
        Self::BlocksRegistered,
        Self::KnownIdIsCompared,
        Self::PauseIsAFieldOfItsOwn,
        Self::StockChangeIsARebuild,
        Self::BurntNumber,
        Self::NumberFromSqlAlone,
        Self::EpochFromSql,
        Self::ReadUnderLock,
        Self::LostWithoutRelease,
        Self::DuplicateHasTicket,
        Self::AdmitComparesEpoch,
        Self::RefundedIsLive,
        Self::ReleaseAfterCommit,
        Self::LoadDropsOldHolders,
        Self::OtherSalesOfTheLaneClose,
        Self::FreshLookBeforeRebuild,
        Self::UncertainIdsAreKept,
        Self::BlocksEndAtMidnight,
        Self::OnlyEpochZeroSkipsTheDrain,
        Self::HolderEpochFromSql,
    ];
}

/// A set of guards that are out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mutants(u64);

impl Mutants {
    /// Without these guards.
    pub fn of(guards: &[Guard]) -> Self {
        Self(guards.iter().fold(0, |set, guard| set | 1 << (*guard as u64)))
    }

    /// Whether `guard` is out.
    pub fn has(self, guard: Guard) -> bool {
        self.0 >> (guard as u64) & 1 == 1
    }
}
